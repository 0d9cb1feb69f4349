"""The manifests of examples/cluster. tests/images runs their pods."""

import pytest

from tests.checkout import CHECKOUT
from tests.cluster.manifests import documents, job_of

EXAMPLES = CHECKOUT / "examples" / "cluster"


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Folder of the validator, which the first test installs."""
    return tmp_path_factory.mktemp("validator") / "packages"


def test_the_job_is_valid_and_goes_on_without_a_node(packages):
    (job,) = documents(EXAMPLES / "kubernetes.yaml", packages)
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["backoffLimitPerIndex"] == 0
    assert job["spec"]["completions"] == job["spec"]["parallelism"]


def test_the_train_job_has_the_same_pods(packages):
    (job,) = documents(EXAMPLES / "kubernetes.yaml", packages)
    train_job, runtime = documents(EXAMPLES / "trainjob.yaml", packages)
    assert job_of(runtime)["spec"]["template"] == job["spec"]["template"]
    reference = train_job["spec"]["runtimeRef"]
    assert (reference["kind"], reference["name"]) == (runtime["kind"], runtime["metadata"]["name"])
    # What Trainer's webhook asks of a runtime: the label, one replica, and a container of this name.
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert node["template"]["metadata"]["labels"] == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert node["replicas"] == 1
    assert "node" in [each["name"] for each in node["template"]["spec"]["template"]["spec"]["containers"]]


def test_a_wrong_manifest_is_refused(packages, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        (EXAMPLES / "kubernetes.yaml").read_text().replace("backoffLimitPerIndex: 0", "backoffLimit: none")
    )
    with pytest.raises(AssertionError, match="'none' is not of type 'integer'"):
        documents(wrong, packages)
