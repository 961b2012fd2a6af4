"""Bad input: one line on standard error, exit code 2, nothing on standard output, nothing written."""

import pytest

NODES = "id,age,dorm,year\n" + "".join(
    f"{v},{20 + v},{'north' if v % 2 else 'south'},{2004 + v % 2}\n" for v in range(1, 13)
)
EDGES = "source,target\n" + "".join(f"{v},{v + 1}\n" for v in range(1, 12))
AT_EDGE, AT_NODE = (f"--unit {unit} --epsilon 1 --delta 1e-5" for unit in ("edge", "node"))
EDGE = AT_EDGE.split()


def swap(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


def column(text, number, value):
    """The table with one column overwritten."""
    head, *rows = text.splitlines()
    cells = [row.split(",") for row in rows]
    return "\n".join([head, *(",".join([*row[:number], value(i), *row[number + 1 :]]) for i, row in enumerate(cells))])


def ids(cases):
    return [pytest.param(*case[1:], id=case[0]) for case in cases]


@pytest.fixture
def files(tmp_path):
    """Write the two tables (and a schema) and name them as options."""

    def write(nodes=NODES, edges=EDGES, schema=None):
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        options = ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "year"]
        if schema is not None:
            (tmp_path / "schema.toml").write_text(schema)
            options += ["--schema", tmp_path / "schema.toml"]
        return options

    return write


BAD_TABLES = [
    ("text-among-numbers", {"nodes": swap(NODES, ",21,", ",old,")}, "text at node 1."),
    ("one-class", {"nodes": column(NODES, 3, lambda i: "2004")}, "at least 2 classes"),
    ("no-labeled-training-node", {"nodes": column(NODES, 3, lambda i: "2004" if i == 11 else "")}, "classes"),
    ("schema-unknown-key", {"schema": "max_degre = 4"}, "Did you mean 'max_degree'?"),
    ("schema-not-toml", {"schema": "classes = ["}, "schema.toml"),
    ("schema-misspelled-column", {"schema": "[columns.agge]\nmin = 0"}, "Did you mean 'age'?"),
]


@pytest.mark.parametrize(("contents", "fragment"), ids(BAD_TABLES))
def test_a_bad_table_is_refused(contents, fragment, files, refused, tmp_path):
    refused(fragment, "train", "gap", *files(**contents), *EDGE, "--out", tmp_path / "run")


def test_too_few_labeled_training_nodes_are_refused(files, refused, tmp_path):
    nodes = column(NODES, 0, lambda i: str(i + 1)).replace("year", "year,role", 1).splitlines()
    roles = ["train", "train", *["test"] * 10]
    rows = [nodes[0], *(f"{row},{role}" for row, role in zip(nodes[1:], roles, strict=True))]
    rows[1] = swap(rows[1], "2005", "")
    options = files("\n".join(rows), schema='role = "role"')
    refused("two labeled training nodes, got 1", "train", "gap", *options, *EDGE, "--out", tmp_path / "run")


def test_no_labeled_test_node_is_refused_before_anything_is_spent(files, refused, tmp_path):
    rows = [f"{row},{'role' if not i else 'train' if i < 11 else 'test'}" for i, row in enumerate(NODES.splitlines())]
    for i in (11, 12):
        rows[i] = rows[i].replace("2004", "").replace("2005", "")
    options = files("\n".join(rows), schema='role = "role"')
    refused("labeled test node", "train", "gap", *options, *EDGE, "--out", tmp_path / "run")


def test_a_split_beside_declared_roles_is_refused(files, refused, sfumato, tmp_path):
    rows = [f"{row},{'role' if not i else 'train' if i < 9 else 'test'}" for i, row in enumerate(NODES.splitlines())]
    options = files("\n".join(rows), schema='role = "role"')
    out = (*EDGE, "--no-controls", "--out", tmp_path / "run")
    said = "Expected no --split, since the {} has roles, got '60/20/20'. Drop it"
    refused(said.format(f"schema {str(options[-1])!r}"), "train", "gap", *options, "--split", "60/20/20", *out)
    store = tmp_path / "store"
    assert sfumato("data", "import", *options, "--out", store).code == 0
    refused(said.format(f"store {str(store)!r}"), "train", "gap", "--graph", store, "--split", "60/20/20", *out)
    assert sfumato("train", "gap", *options, "--split", "public", *out).code == 0


BAD_ARGUMENTS = [
    ("epsilon-0", "--unit edge --epsilon 0 --delta 1e-5", "epsilon to be a finite number"),
    ("epsilon-nan", "--unit edge --epsilon nan --delta 1e-5", "epsilon to be a finite number"),
    ("epsilon-text", "--unit edge --epsilon low --delta 1e-5", "Expected --epsilon to be a number, got 'low'"),
    ("epsilon-missing", "--unit edge --delta 1e-5", "Expected --epsilon"),
    ("delta-0", "--unit edge --epsilon 1 --delta 0", "a delta above 0 for method"),
    ("delta-1", "--unit edge --epsilon 1 --delta 1", "well below 1 / (number of records)"),
    ("delta-missing", "--unit edge --epsilon 1", "Expected --delta"),
    ("delta-below-sampler", "--unit edge --epsilon 1 --delta 1e-32", "delta"),
    ("unit-missing", "--epsilon 1", "--unit"),
    ("unit-unknown", "--unit family --epsilon 1 --delta 1e-5", "to be one of none, arc, edge"),
    (
        "relation-of-edges",
        f"{AT_EDGE} --relation replace",
        "--relation with a unit that has two (node, record, class, subclass)",
    ),
    ("relation-unknown", f"{AT_NODE} --relation add", "Expected relation to be one of remove, replace, got 'add'"),
    ("budget-without-privacy", "--unit none --epsilon 1", "no --epsilon or --delta"),
    ("max-degree-with-edge", f"{AT_EDGE} --max-degree 5", "--max-degree with --unit node only"),
    ("node-without-max-degree", AT_NODE, "Pass --max-degree"),
    ("max-degree-0", f"{AT_NODE} --max-degree 0", "max_out_degree to be"),
    ("record-has-no-hop", "--unit record --epsilon 1 --delta 1e-5", "no bounded sensitivity"),
    ("split-of-two", f"{AT_EDGE} --split 80/20", "A/B/C"),
    ("split-above-100", f"{AT_EDGE} --split 80/20/20", "A/B/C"),
    ("split-without-test", f"{AT_EDGE} --split 80/20/0", "A/B/C"),
    ("split-public", f"{AT_EDGE} --split public", "no public split"),
    ("seeds-0", f"{AT_EDGE} --seeds 0", "seeds to be an integer >= 1"),
    ("hops-0", f"{AT_EDGE} --hops 0", "num_hops to be an integer >= 1"),
    ("threads-0", f"{AT_EDGE} --threads 0", "threads to be an integer >= 1"),
    ("option-unknown", f"{AT_EDGE} --epsilonn 2", "No such option"),
    ("total-without-ledger", f"{AT_EDGE} --total-epsilon 2", "--total-epsilon with --ledger FILE only"),
    ("total-delta-without-ledger", f"{AT_EDGE} --total-delta 1e-4", "--total-delta with --ledger FILE only"),
    ("rule-without-ledger", f"{AT_EDGE} --composition gdp", "--composition with --ledger FILE only"),
    ("ledger-without-total", f"{AT_EDGE} --ledger /tmp/absent.jsonl", "--total-epsilon E"),
    ("ledger-without-folder", f"{AT_EDGE} --ledger /nowhere/l --total-epsilon 2", "folder of the ledger to exist"),
    ("ledger-of-no-privacy", "--unit none --ledger l --total-epsilon 2", "--ledger with a privacy unit"),
    ("total-0", f"{AT_EDGE} --ledger /tmp/l --total-epsilon 0", "total_epsilon to be a finite number > 0"),
    (
        "total-text",
        f"{AT_EDGE} --ledger /tmp/l --total-epsilon all",
        "Expected --total-epsilon to be a number, got 'all'",
    ),
    ("total-delta-1", f"{AT_EDGE} --ledger /tmp/l --total-epsilon 2 --total-delta 1", "total_delta to be"),
    ("rule-unknown", f"{AT_EDGE} --ledger /tmp/l --total-epsilon 2 --composition rdp", "one of basic, gdp"),
    ("resumable-without-privacy", "--unit none --resumable", "--resumable with a privacy unit"),
    ("label-unknown", f"{AT_EDGE} --label yera", "Did you mean 'year'?"),
    ("schema-absent", f"{AT_EDGE} --schema /nowhere.toml", "/nowhere.toml"),
    ("nodes-absent", f"{AT_EDGE} --nodes /nowhere.csv", "/nowhere.csv"),
    ("both-sources", f"{AT_EDGE} --dataset campus", "got both"),
    ("class-filter-on-own-tables", f"{AT_EDGE} --min-class-size 3", "--min-class-size with --dataset only"),
    ("sign-key-absent", f"{AT_EDGE} --sign-key /nowhere.pem", "/nowhere.pem"),
    ("mixed-kinds", f"{AT_EDGE} --nodes nodes.parquet", "of one kind"),
]


@pytest.mark.parametrize(("extra", "fragment"), ids(BAD_ARGUMENTS))
def test_a_bad_argument_is_refused(extra, fragment, files, refused, tmp_path):
    known = 'classes = ["2004", "2005"]\n[columns.dorm]\ncategories = ["north", "south"]'
    refused(fragment, "train", "gap", *files(schema=known), *extra.split(), "--out", tmp_path / "run")


BAD_COMMANDS = [
    (
        "method-unknown",
        f"train gat --dataset campus {AT_EDGE}",
        "method to be one of auto, label-messages, daily-messages, piloted-messages, promised-messages, progap, gap",
    ),
    ("method-misspelled", f"train ProGap --dataset campus {AT_EDGE}", "Did you mean 'progap'?"),
    ("audited-method-misspelled", "audit labl-only", "Did you mean 'label-only'?"),
    ("command-misspelled", "trian gap", "Did you mean 'train'"),
    ("unit-misspelled", "train gap --dataset campus --unit edeg", "Did you mean 'edge'?"),
    ("option-misspelled", "train gap --unt edge", "Possible options: "),
    ("dataset-misspelled", f"train gap --dataset campsu {AT_EDGE}", "Did you mean 'campus'?"),
    (
        "school-misspelled",
        f"train gap --dataset facebook100/berkley13 --data-dir . {AT_EDGE}",
        "Did you mean 'facebook100/Berkeley13'?",
    ),
    ("no-source", f"train gap {AT_EDGE}", "got neither"),
    ("nodes-without-label", f"train gap --nodes a.csv --edges b.csv {AT_EDGE}", "Expected --label"),
    ("nodes-without-edges", f"train gap --nodes a.csv --label y {AT_EDGE}", "Expected --edges"),
    ("dataset-unknown", f"train gap --dataset facebok/Reed98 --data-dir . {AT_EDGE}", "sfumato datasets"),
    ("dataset-escapes", f"train gap --dataset npz/../../x --data-dir . {AT_EDGE}", "sfumato datasets"),
    ("dataset-without-folder", f"train gap --dataset planetoid/cora {AT_EDGE}", "data_dir"),
    (
        "dataset-contradicted",
        f"train gap --dataset campus --directed {AT_EDGE}",
        "contradicts what was declared. Drop --directed",
    ),
    ("sage-is-not-private", f"train sage --dataset campus {AT_EDGE}", "no proof under unit 'edge'"),
    ("hops-of-mlp", f"train mlp --dataset campus --hops 2 {AT_EDGE}", "--hops with one of label-messages"),
    ("out-missing", f"train mlp --dataset campus {AT_EDGE}", "--out"),
    ("method-missing", f"train --dataset campus {AT_EDGE}", "Expected METHOD"),
    ("resume-absent", "train --resume /nowhere/run", "Expected the folder of a run"),
]


@pytest.mark.parametrize(("arguments", "fragment"), ids(BAD_COMMANDS))
def test_a_bad_command_is_refused(arguments, fragment, refused, tmp_path):
    out = () if fragment == "--out" or "--resume" in arguments else ("--out", tmp_path / "run")
    refused(fragment, *arguments.split(), *out)


@pytest.mark.parametrize(("option", "declared"), [("--directed", "false"), ("--undirected", "true")])
def test_a_direction_that_contradicts_the_schema_is_refused(option, declared, files, refused, tmp_path):
    options = files(schema=f"directed = {declared}")
    refused("one direction", "train", "gap", *options, option, *EDGE, "--out", tmp_path / "run")


def test_a_multi_label_target_is_refused(refused, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2], "year": [[0, 1], [1]]}), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": [1], "target": [2]}), tmp_path / "edges.parquet")
    options = ["--nodes", tmp_path / "nodes.parquet", "--edges", tmp_path / "edges.parquet", "--label", "year"]
    refused("For several labels of a node", "train", "gap", *options, *EDGE, "--out", tmp_path / "run")


def test_an_existing_output_folder_is_refused_and_kept(files, refused, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("mine")
    refused("which exists", "train", "gap", *files(), *EDGE, "--out", tmp_path / "run")


def test_a_key_of_another_kind_is_refused_before_training(files, refused, tmp_path):
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(SECP256R1())
    pem = tmp_path / "key.pem"
    pem.touch(0o600)
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    refused("Ed25519", "train", "gap", *files(), *EDGE, "--sign-key", pem, "--out", tmp_path / "run")


def test_a_ledger_of_another_kind_is_refused_and_kept(files, refused, tmp_path):
    (tmp_path / "ledger.jsonl").write_text("my notes\n")
    (tmp_path / "ledger.jsonl.lock").touch()
    ledger = ("--ledger", tmp_path / "ledger.jsonl", "--total-epsilon", "2")
    refused("to be the ledger of a data set", "train", "gap", *files(), *EDGE, *ledger, "--out", tmp_path / "run")
    refused("to be the ledger of a data set", "ledger", "show", tmp_path / "ledger.jsonl")
    refused("absent.jsonl", "ledger", "show", tmp_path / "absent.jsonl")
    refused("Missing", "ledger", "show")


@pytest.fixture
def run(tmp_path, files, sfumato):
    """A finished run of the small graph."""
    assert sfumato("train", "mlp", *files(), *EDGE, "--out", tmp_path / "run", "--json").code == 0
    return tmp_path / "run"


def test_an_altered_release_is_refused(run, refused):
    spec = run / "release" / "spec.json"
    spec.write_text(spec.read_text().replace('"mlp"', '"gap"'))
    refused("release/spec.json", "predict", run)
    refused("release/spec.json", "evaluate", run)


def test_a_run_is_not_overwritten_and_its_graph_needs_no_budget(run, refused, files, tmp_path):
    (run / "predictions.csv").write_text("mine")
    refused("to be a new file", "predict", run)
    refused(
        "this spends nothing", "predict", run, "--out", tmp_path / "p.csv", *EDGE[2:], "--new-run", tmp_path / "new"
    )
    refused("which exists", "train", "mlp", *files(), *EDGE, "--out", run)


def test_a_run_whose_graph_changed_or_moved_is_refused(run, refused, tmp_path):
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("age", "weight"))
    refused("feature", "evaluate", run)
    nodes.unlink()
    refused("nodes.csv", "predict", run)
    (run / "evaluation" / "source.json").unlink()
    refused("source.json", "evaluate", run)


@pytest.mark.parametrize("command", ["verify", "predict", "evaluate"])
def test_a_folder_that_is_no_run_is_refused(command, refused, tmp_path):
    (tmp_path / "other").mkdir()
    refused("other", command, tmp_path / "other")
    refused("absent", command, tmp_path / "absent")


BAD_QUESTIONS = [
    ("noise-0", "epsilon --noise-multiplier 0 --delta 1e-5", "noise_multiplier"),
    ("delta-missing", "epsilon --noise-multiplier 1", "--delta"),
    ("delta-1", "epsilon --noise-multiplier 1 --delta 1", "delta"),
    ("steps-0", "epsilon --noise-multiplier 1 --delta 1e-5 --steps 0", "steps"),
    ("method", "epsilon --noise-multiplier 1 --delta 1e-5 --method magic", "pld, rdp"),
    ("sampling", "noise --epsilon 1 --delta 1e-5 --sampling-prob 2", "sampling_prob"),
    ("epsilon-0", "noise --epsilon 0 --delta 1e-5", "epsilon"),
    ("relation", "noise --epsilon 1 --delta 1e-5 --relation swap", "relation"),
]


@pytest.mark.parametrize(("arguments", "fragment"), ids(BAD_QUESTIONS))
def test_a_bad_accounting_question_is_refused(arguments, fragment, refused):
    refused(fragment, "budget", *arguments.split())


def test_a_data_folder_that_is_absent_is_refused(refused, tmp_path):
    refused("data_dir", "datasets", "--data-dir", tmp_path / "absent")
