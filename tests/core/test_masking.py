"""Secrets in variables, arguments and texts are masked; other text is unchanged."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from tui_workbench.core.masking import (
    MASK,
    find_mask,
    is_secret_name,
    mask_command,
    mask_text,
    mask_value,
    mask_variables,
    mask_words,
)


@pytest.mark.parametrize(
    "name",
    ["PASSWORD", "db_passwd", "MY_SECRET", "HF_TOKEN", "AZURE_STORAGE_KEY", "credentials", "GITHUB_PAT", "MYSQL_PWD"],
)
def test_secret_names_are_known(name: str) -> None:
    assert is_secret_name(name)
    assert mask_variables({name: "hunter2", "EPOCHS": "3"}) == {name: MASK, "EPOCHS": "3"}


@pytest.mark.parametrize(
    "name", ["EPOCHS", "CUDA_VISIBLE_DEVICES", "PATH", "", "PWD", "PATTERN", "TOKENIZERS_PARALLELISM"]
)
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


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
