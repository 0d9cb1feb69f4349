"""The manifests of examples/cluster. tests/images runs their pods."""

import pytest

from tests.checkout import CHECKOUT
from tests.cluster.manifests import documents, job_of

EXAMPLES = CHECKOUT / "examples" / "cluster"


def test_the_job_is_valid_and_goes_on_without_a_node(tmp_path):
    (job,) = documents(EXAMPLES / "kubernetes.yaml", tmp_path / "packages")
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["backoffLimitPerIndex"] == 0
    assert job["spec"]["completions"] == job["spec"]["parallelism"]


def test_the_train_job_has_the_same_pods(tmp_path):
    (job,) = documents(EXAMPLES / "kubernetes.yaml", tmp_path / "one")
    train_job, runtime = documents(EXAMPLES / "trainjob.yaml", tmp_path / "two")
    assert job_of(runtime)["spec"]["template"] == job["spec"]["template"]
    reference = train_job["spec"]["runtimeRef"]
    assert (reference["kind"], reference["name"]) == (runtime["kind"], runtime["metadata"]["name"])
    # What Trainer's webhook asks of a runtime: the label, one replica, and a container of this name.
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert node["template"]["metadata"]["labels"] == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert node["replicas"] == 1
    assert "node" in [each["name"] for each in node["template"]["spec"]["template"]["spec"]["containers"]]


def test_a_wrong_manifest_is_refused(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        (EXAMPLES / "kubernetes.yaml").read_text().replace("backoffLimitPerIndex: 0", "backoffLimit: none")
    )
    with pytest.raises(AssertionError, match="'none' is not of type 'integer'"):
        documents(wrong, tmp_path / "packages")
