"""Secrets in variables, arguments and texts are masked; other text is unchanged."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from tui_workbench.core.masking import (
    MASK,
    find_mask,
    mask_command,
    mask_text,
    mask_tree,
    mask_value,
    mask_variables,
    mask_words,
)
from tui_workbench.core.secret_names import is_secret, is_secret_name

SECRET_NAMES = """
    PASSWORD db_passwd DB_PASS DBPASS DB_PASS_2 dbPassword PGPASSWORD SSHPASS MYSQL_PWD userpwd pass PASSPHRASE passcode
    pw DB_PW MY_SECRET client_secret clientSecret AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID SECRETS credentials GIT_CREDS
    HF_TOKEN HFToken hftoken GITHUB_TOKEN_READ token access_token API_TOKENS accessToken TOKEN1
    KEY OPENAI_KEY openaiKey apikey api-key X-Api-Key AZURE_STORAGE_KEY ssh_key API_KEYS signing.key SSH_KEY_PROD
    account.key AccountKey GITHUB_PAT SAS_URL AZURE_SAS HF_AUTH BASIC_AUTH auth AUTH_HEADER Authorization
    Proxy-Authorization COOKIE SESSION_COOKIE Set-Cookie cookies SLACK_WEBHOOK DISCORD_WEBHOOK_URL webhook LICENSE
    LICENSE_KEY licence GUROBI_LICENSE JWT SENTRY_DSN CONNECTION_STRING ConnectionString conn_str PASSWORT
"""

HARMLESS_NAMES = """
    EPOCHS CUDA_VISIBLE_DEVICES PATH PWD OLDPWD PATTERN TOKENIZERS_PARALLELISM tokenizer max_tokens n_tokens max_token
    pad_token eos_token token_type_ids tokens_per_second prompt_tokens num_tokens token_embedding detokenize
    key_bindings keyboard monkey turkey keys keypoints num_keypoints primary_key sort_key label_key state_dict_keys
    key_dim KEY_PATH keyring author authors authority authored no_auth auth_type auth_url requires_auth passes n_passes
    compass bypass forward_pass low_pass n_pass passthrough pass_rate passive passenger license_plate license_type
    license_server cookie_domain cookiecutter webhook_port hook patch patience path spatial sasha dispatch sassy
    secretary pos_pw pw_loss power signature compat design assign sigma passwordless dsn_name pin_memory bearing
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_value_of_a_secret_name_is_masked_everywhere(name: str) -> None:
    secret = "hunter2xyz"
    assert is_secret_name(name)
    assert is_secret(name, secret)
    assert mask_variables({name: secret, "EPOCHS": "3"}) == {name: MASK, "EPOCHS": "3"}
    assert mask_tree({"a": [{name: secret}]}) == {"a": [{name: MASK}]}
    assert mask_words([f"--{name}={secret}", f"--{name}", secret]) == [f"--{name}={MASK}", f"--{name}", MASK]
    for text in (
        f"{name}={secret}", f'{{"{name}": "{secret}"}}', f"{{'{name}': '{secret}'}}", f"x?{name}={secret}&a=1",
        f'{{\\"{name}\\": \\"{secret}\\"}}',
    ):  # fmt: skip
        assert secret not in mask_text(text), text
        assert secret not in mask_command(f"tool '{text}'")
    assert mask_command(f"export {name.replace('-', '_').replace('.', '_')}={secret}").endswith(f"={MASK}")


@pytest.mark.parametrize("name", HARMLESS_NAMES.split())
def test_value_of_a_harmless_name_stays(name: str) -> None:
    value = "/home/me" if name in ("PWD", "OLDPWD") else "hunter2xyz"
    assert not is_secret(name, value)
    assert not is_secret_name(name)
    assert mask_variables({name: value}) == {name: value}
    words = [f"--{name}={value}", f"--{name}", value, f"{name}={value}", f'{{"{name}": "{value}"}}', f"{name}: {value}"]
    assert mask_words(words) == words
    assert mask_command(" ".join(words)) == " ".join(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--pass", "3"], ["--auth", "basic"], ["--auth=none"], ["--license", "apache-2.0"], ["--license=MIT"],
        ["--key", "loss"], ["--cookies", "cookies.txt"], ["--use-auth-token", "true"], ["--pat", "data.csv"],
        ["--max-tokens", "100"], ["--webhook", "/hook"], ["-p", "22750"], ["-p", "fp16"], ["-p", "resnet50"],
        ["-p", "/data"], ["-p", "0.5", "--user", "me"], ["-p", "8080", "-u", "1000:1000"],
        ["-p", "127.0.0.1:80:80/tcp", "-u", "1000:1000"],
        ["--api-key", ""],
        ["https://example.com/docs/hooks/intro"], ["https://example.com/bots/x"], ["sk-learn-random-forest-100-trees"],
        ["hf_transfer"], ["{'lr': 0.1, 'keys': ['a']}"], ["unexpected token: }"], ["s3://bucket/webhooks"],
    ],
)  # fmt: skip
def test_harmless_values_of_options_stay(words: list[str]) -> None:
    assert mask_words(words) == words
    assert find_mask(words) == ""


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        (["--pass", "hunter2"], ["--pass", "***"]),
        (["--auth", "hunter2"], ["--auth", "***"]),
        (["--api-key", "123456"], ["--api-key", "***"]),
        (["-u", "me", "-p", "hunter2"], ["-u", "me", "-p", "***"]),
        (["--username=me", "-p=hunter2"], ["--username=me", "-p=***"]),
        (["-u", "me:hunter2"], ["-u", "me:***"]),
        (["sshpass", "-p", "hunter2", "ssh"], ["sshpass", "-p", "***", "ssh"]),
        (["--license-key", "AB12"], ["--license-key", "***"]),
        (['{"token": "a b \\" c", "lr": 1}'], ['{"token": "***", "lr": 1}']),
        (['{"password": 123456}'], ['{"password": ***}']),
        (["--config={'api_key': 'x'}"], ["--config={'api_key': '***'}"]),
        (["-H", "X-Api-Key: abc"], ["-H", "X-Api-Key: ***"]),
        (["-H", "Cookie: a=b; c=d"], ["-H", "Cookie: ***"]),
        (["-H", "Authorization: Basic bWU6aA=="], ["-H", "Authorization: Basic ***"]),
        (["https://hooks.slack.com/services/T0/B0/abc"], ["https://hooks.slack.com/***"]),
        (["https://discord.com/api/webhooks/1/abc"], ["https://discord.com/api/webhooks/***"]),
        (["https://a.webhook.office.com/webhookb2/x"], ["https://a.webhook.office.com/***"]),
        (["https://api.telegram.org/bot12:ab/send"], ["https://api.telegram.org/bot***"]),
        (["a ghp_0123456789abcdefghijABCDEFGHIJ b"], ["a *** b"]),
        (["sk-proj-0123456789abcdefghij"], ["***"]),
        (["eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-_"], ["***"]),
        (["-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"], ["***"]),
    ],
)
def test_secret_values_are_masked_by_shape(words: list[str], masked: list[str]) -> None:
    assert mask_words(words) == masked
    assert mask_words(masked) == masked
    assert find_mask(masked)


D, H, L = "0123456789", "0123456789abcdef", "aB3dE5gH7jK9mN1pQ3sT5vW7xZ"

TOKENS = [
    f"hf_{L}{L[:8]}", f"ghp_{L}{L[:10]}", f"gho_{L}{L[:10]}", f"ghs_{L}{L[:10]}", f"github_pat_{L[:22]}_{L}{L}{L[:7]}",
    f"glpat-{L[:20]}", f"glpat-{L[:20]}.01.{L[:9]}", f"gldt-{L[:20]}", f"glrt-{L[:20]}", f"glcbt-{L[:20]}",
    f"sk-{L}{L[:22]}", f"sk-proj-{L}-{L[:10]}_{L}", f"sk-ant-api03-{L}-{L}_{L[:20]}AA", f"sk-or-v1-{H * 4}",
    f"AKIA{L[:16].upper()}", f"ASIA{L[:16].upper()}", f"AIza{L}{L[:9]}", f"ya29.a0{L}{L}", f"GOCSPX-{L}", f"1//0{L}{L}",
    f"eyJ{L}.eyJ{L}.{L}", f"eyJ{L}..{L[:16]}.{L}.{L[:22]}", f"eyJhcGlfYWRkcmVzcyI6{L}{L}",
    f"xoxb-{D}12-{D}34-{L[:24]}", f"xapp-1-A{D}-{D}123-{H * 4}", f"npm_{L}{L[:10]}", f"pypi-AgEIcHlwaS5vcmc{L}{L}",
    f"SG.{L[:22]}.{L}{L[:17]}", f"sk_live_{L[:24]}", f"rk_live_{L[:24]}", f"sk_test_{L[:24]}", f"whsec_{L}",
    f"SK{H * 2}", f"dop_v1_{H * 4}", f"dckr_pat_{L}", f"shpat_{H * 2}", f"hvs.{L}{L}{L}", f"dapi{H * 2}",
    f"lin_api_{L}", f"nvapi-{L}{L}", f"gsk_{L}{L}", f"r8_{L}{L[:11]}", f"xai-{L}{L}{L}", f"pplx-{L}{L}",
    f"AGE-SECRET-KEY-1{L.upper() * 3}", f"sntrys_{L}{L}", f"glc_{L}{L}", f"tskey-auth-{L[:12]}-{L}", f"wandb_v1_{L}{L}",
    f"lsv2_pt_{H * 2}_{H[:10]}",
    f"ATATT3xFf{L}{L}{L}", f"pul-{H * 2}{H[:8]}", f"{L[:14]}.atlasv1.{L}{L}{L}", f"dp.pt.{L}{L}", f"{D}:AA{L}{L[:7]}",
    f"sqp_{H * 2}{H[:8]}", f"PMAK-{H}{H[:8]}-{H * 2}{H[:2]}", f"NRAK-{L.upper()}1",
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_token_is_masked_wherever_it_is(token: str) -> None:
    """The letters and digits are made up; only the shapes are real."""
    assert mask_words([token, f"--x={token}", "--x", token]) == [MASK, f"--x={MASK}", "--x", MASK]
    assert mask_text(f"see ({token}), or '{token}'") == f"see ({MASK}), or '{MASK}'"
    assert mask_command(f"tool {token}") == f"tool {MASK}"
    assert mask_tree({"note": [token]}) == {"note": [MASK]}


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        (["mysql", "-u", "root", "-phunter2"], ["mysql", "-u", "root", "-p***"]),
        (["/usr/bin/mysqldump", "-uroot", "-pS3cret"], ["/usr/bin/mysqldump", "-uroot", "-p***"]),
        (["sshpass", "-phunter2", "ssh", "box"], ["sshpass", "-p***", "ssh", "box"]),
        (["curl", "-ume:hunter2", "x"], ["curl", "-ume:***", "x"]),
        (["me:hunter2@registry.example.com/image:1"], ["me:***@registry.example.com/image:1"]),
        (["me:hunter2@10.0.0.1:5000/image"], ["me:***@10.0.0.1:5000/image"]),
        (["--image=me:hunter2@localhost:5000/image"], ["--image=me:***@localhost:5000/image"]),
    ],
)
def test_passwords_in_one_word_are_masked(words: list[str], masked: list[str]) -> None:
    assert mask_words(words) == masked
    assert mask_words(masked) == masked


@pytest.mark.parametrize(
    "word",
    [
        "-pretrained", "-p8080", "-pFP16", "-patience5", "-use_amp", "-u", "-u1000:1000", "-Uniform", "-p", "me@x.com",
        "email:jane.doe@example.com", "git@github.com:me/x.git", "python:3.11@sha256:0123456789abcdef", "cosine:0.1@10",
        "ckpt:best@model.pt", "meta-llama/Llama-3.1-8B-Instruct", "hf_hub_download", "hf_transformers_model_v2",
        "xai-explainable-features-v2", "pypi-package-index-2", "hf_bert2_v3", "sk-resnet-50-pretrained-on-imagenet",
        "0123456789abcdef0123456789abcdef01234567", "sk-learn-pipeline-with-very-long-name-and-no-token",
        "glcm_features", "gsk_small", "r8_step", "xai-explain", "npm_install", "pypi-package", "SKU1234",
        "dp.train.data", "eyJhbGci", "3f9d6c1e-7b1a-4a53-9c55-2f1d2c3b4a59", "2026-01-02T03:04:05", "s3://bucket/path@1",
        "b7f783baed8297f0db917462184ff4f08e69c2d5e95f79a942600f9725f58ce1", "resnet50.a1_in1k",
        "bert-base-uncased@main", "vit_base_patch16_clip_224.laion2b_ft_in12k_in1k",
        "lr:0.1,wd:0.01@cosine", "host:8080", "ATATT3", "pul-1",
    ],
)  # fmt: skip
def test_harmless_words_stay(word: str) -> None:
    assert mask_words([word]) == [word]
    assert mask_words(["--x", word]) == ["--x", word]
    assert mask_command(f"tool {word}") == f"tool {word}"


def test_values_below_a_secret_name_are_masked_in_a_tree() -> None:
    tree = {
        "credentials": {"user": "me", "data": {"x": "hunter2"}},
        "tokenizer": {"type": "bert"},
        "token": {"type": 1},
    }
    assert mask_tree(tree) == {**tree, "credentials": {"user": MASK, "data": {"x": MASK}}}


def test_number_of_a_secret_key_is_masked_in_a_tree() -> None:
    assert mask_tree({"password": 123456, "epochs": 3, "max_tokens": 9, "token": None}) == {
        "password": MASK,
        "epochs": 3,
        "max_tokens": 9,
        "token": None,
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://user:hunter2@db:5432/runs", "postgres://user:***@db:5432/runs"),
        ("postgres://user:hunt@er2@db/runs", "postgres://user:***@db/runs"),
        ("mongodb+srv://u:p@a,b/x and redis://:p@c", "mongodb+srv://u:***@a,b/x and redis://:***@c"),
        ("https://ghp_abc@github.com/x", "https://***@github.com/x"),
        (
            "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=abc+/def==;EndpointSuffix=core.windows.net",
            "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=***;EndpointSuffix=core.windows.net",
        ),
        ("Server=db;Uid=me;Pwd=hunter2;", "Server=db;Uid=me;Pwd=***;"),
        (
            "https://x.blob.core.windows.net/c?sv=2020&sig=abc%3D&se=1",
            "https://x.blob.core.windows.net/c?sv=2020&sig=***&se=1",
        ),
        ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer ***'"),
        ("password=hunter2, user=me", "password=***, user=me"),
    ],
)
def test_secrets_in_a_text_are_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked
    assert mask_value("NAME", text) == masked
    assert find_mask([masked])


@pytest.mark.parametrize(
    "text",
    ["ssh://git@host/x", "lr=0.1", "a@b", "http://host/a@b", "PATH=/bin", "PWD=/home/me", "eos_token=</s>", "key=3"],
)
def test_other_text_stays(text: str) -> None:
    assert mask_text(text) == text
    assert mask_words([text]) == [text]


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        (["--token", "X", "--lr", "0.1"], ["--token", "***", "--lr", "0.1"]),
        (["--api-key=X"], ["--api-key=***"]),
        (["--hub_token=X", "--wandb-api-key", "X"], ["--hub_token=***", "--wandb-api-key", "***"]),
        (["API_KEY=X", "GITHUB_PAT=X"], ["API_KEY=***", "GITHUB_PAT=***"]),
        (["--github-pat", "X"], ["--github-pat", "***"]),
        (["--db", "postgres://u:p@h/d"], ["--db", "postgres://u:***@h/d"]),
        (["-p", "3", "--verbose-token", "--next"], ["-p", "3", "--verbose-token", "--next"]),
    ],
)
def test_secret_arguments_are_masked(words: list[str], masked: list[str]) -> None:
    assert mask_words(words) == masked
    assert find_mask(words) == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--pad-token", "<pad>", "--eos_token=</s>"], ["--max-tokens", "100"], ["--tokenizer", "bert"], ["--key", "3"],
        ["key=value", "n_tokens=4096", "tokenizer=bert", "--compat", "1"],
    ],
)  # fmt: skip
def test_settings_of_a_training_stay(words: list[str]) -> None:
    assert mask_words(words) == words


@pytest.mark.parametrize(
    "name", ["DB_P\u0410SS", "\u0421OOKIE", "\uff24\uff22_\uff30\uff21\uff33\uff33", "T\u041eKEN", "\u03a1ASSWORD"]
)
def test_names_with_letters_that_look_alike_are_secret(name: str) -> None:
    assert is_secret(name, "hunter2xyz")
    assert mask_variables({name: "hunter2xyz"}) == {name: MASK}


def test_long_name_is_masked() -> None:
    assert mask_text("a" * 200_000 + " key=1") == "a" * 200_000 + " key=1"
    assert mask_text("a" * 200_000 + "token=1") == "a" * 200_000 + "token=***"


@hypothesis.given(strategies.lists(strategies.text(alphabet="kBearer=:/@- toksig", max_size=12), max_size=5))
def test_masking_twice_changes_nothing(words: list[str]) -> None:
    once = mask_words(words)
    assert mask_words(once) == once
    assert len(once) == len(words)
    assert once == words or find_mask(once)


@pytest.mark.parametrize("word", ["***", "--token=***", "postgres://u:***@h"])
def test_masks_are_known(word: str) -> None:
    assert find_mask(["a", word]) == word


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("export API_TOKEN=hunter2", f"export API_TOKEN={MASK}"),
        ("export AWS_KEY='hunter2 and more' MODE=1", f"export AWS_KEY={MASK} MODE=1"),
        ('HF_TOKEN="hunter2"; module load cuda', f"HF_TOKEN={MASK}; module load cuda"),
        ("tool login --password hunter2 --quiet", f"tool login --password {MASK} --quiet"),
        ("module load cuda/12.4  &&  ulimit -n 4096", "module load cuda/12.4  &&  ulimit -n 4096"),
        ('curl -H "Authorization: Bearer hunter2" x', f'curl -H "Authorization: Bearer {MASK}" x'),
        ("tool --api-key 'hunter2 and more'|tee x", f"tool --api-key {MASK}|tee x"),
        ("echo it's done; tool --token hunter2", f"echo it's done; tool --token {MASK}"),
    ],
)
def test_secrets_in_a_shell_command_are_masked(command: str, shown: str) -> None:
    assert mask_command(command) == shown


HEX = "3f786850e387550fdab836ed7e6dc881de23001b"
BASE64 = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFy"


@pytest.mark.parametrize("value", [HEX, HEX.upper(), HEX[:32], BASE64, BASE64 + "eA=="])
@pytest.mark.parametrize(
    "text", ["key: {}", "token:{}", "KEY = {}", "secret : '{}'", "api key: {},", "the key: {} is new", "wandb_key={}"]
)
def test_long_value_after_the_name_of_a_key_is_masked(text: str, value: str) -> None:
    assert mask_text(text.format(value)) == text.format(MASK)


@pytest.mark.parametrize(
    "text",
    [
        f"commit: {HEX}",
        f"commit {HEX}",
        f"sha1={HEX}",
        HEX,
        f"digest: {HEX}",
        f"revision = {HEX}",
        "key: /home/u/Key1/" + "a" * 40,
        "key: the_name_of_a_metric_of_many_words_1",
        f"key: {HEX}.txt",
        "token: " + "9a" * 15,
        f"image: a@sha256:{HEX}",
    ],
)
def test_long_value_after_another_name_is_not_masked(text: str) -> None:
    assert mask_text(text) == text
