# Defines `has_gpu`, which looks for a display controller of NVIDIA, and finds the programs of administrators. The
# numbers of vendors and classes are those of https://pci-ids.ucw.cz: 10de is NVIDIA, 03 a display controller.
PATH=$PATH:/usr/sbin:/sbin
has_gpu() {
    for device in /sys/bus/pci/devices/*; do
        case "$(cat "$device/vendor" "$device/class" 2>/dev/null | tr '\n' ' ')" in
            "0x10de 0x03"*) return 0 ;;
        esac
    done
    return 1
}
