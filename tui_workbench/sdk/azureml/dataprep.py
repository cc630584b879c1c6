"""Data sources of Azure ML Workbench, which cannot be read. An installed package takes precedence."""

raise ImportError(
    "azureml.dataprep of Azure ML Workbench is not available, and .dsource and .dprep files cannot be read: read the "
    "file with pandas, for example pandas.read_csv('data/iris.csv'), and prepare the data in the script"
)
