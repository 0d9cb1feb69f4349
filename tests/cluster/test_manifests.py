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
    # What Trainer's webhook asks of a runtime: the label,
    # one replica, and a container of this name.
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert node["template"]["metadata"]["labels"] == {
        "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"
    }
    assert node["replicas"] == 1
    assert "node" in [
        each["name"] for each in node["template"]["spec"]["template"]["spec"]["containers"]
    ]


VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def breaches(pod):
    """Return what the level "restricted" of the Pod Security Standards forbids in a pod.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    shared = pod.get("securityContext", {})
    found = {name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)}
    found |= {
        f"volume {volume['name']}"
        for volume in pod["volumes"]
        if not set(volume) - {"name"} <= VOLUMES
    }
    for container in pod["containers"] + pod.get("initContainers", []):
        merged = {**shared, **container.get("securityContext", {})}
        rules = {
            "privileged": not merged.get("privileged"),
            "allowPrivilegeEscalation": merged.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": merged.get("runAsNonRoot") is True and merged.get("runAsUser") != 0,
            "seccompProfile": merged.get("seccompProfile", {}).get("type")
            in ("RuntimeDefault", "Localhost"),
            "capabilities": "ALL" in merged.get("capabilities", {}).get("drop", [])
            and set(merged["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"},
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
        }
        found |= {f"{container['name']}: {rule}" for rule, is_kept in rules.items() if not is_kept}
    return found


def test_a_restricted_namespace_admits_the_pods(packages):
    (job,) = documents(EXAMPLES / "kubernetes.yaml", packages)
    pod = job["spec"]["template"]["spec"]
    assert breaches(pod) == set()
    for container in pod["containers"]:
        resources = container["resources"]
        assert {"cpu", "memory"} <= set(resources["requests"]) and "memory" in resources["limits"]
    # The comment on GPUs names the one place that both containers share.
    assert len({str(container["resources"]) for container in pod["containers"]}) == 1
    assert 0 < pod["activeDeadlineSeconds"] <= 24 * 3600
    # The check finds what it is for.
    pod["securityContext"] = {"runAsUser": 0}
    pod["containers"][0]["securityContext"] = {"privileged": True}
    pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    kept = {
        "gil: allowPrivilegeEscalation",
        "gil: capabilities",
        "node: hostPort",
        "gil: hostPort",
        "gil: privileged",
    }
    rules = (
        "privileged",
        "allowPrivilegeEscalation",
        "runAsNonRoot",
        "seccompProfile",
        "capabilities",
        "hostPort",
    )
    broken = {f"{name}: {rule}" for name in ("node", "gil") for rule in rules} - kept
    assert breaches(pod) == broken | {"volume host"}


def test_a_wrong_manifest_is_refused(packages, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        (EXAMPLES / "kubernetes.yaml")
        .read_text()
        .replace("backoffLimitPerIndex: 0", "backoffLimit: none")
    )
    with pytest.raises(AssertionError, match="'none' is not of type 'integer'"):
        documents(wrong, packages)
