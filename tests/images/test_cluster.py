"""The pod of examples/cluster/kubernetes.yaml in a Docker engine:
its images, arguments, user and volumes.
"""

import json
import os

from tests.checkout import CHECKOUT
from tests.cluster.manifests import documents
from tests.processes import PATIENCE

ONE_ROUND = ["text", "--rounds", "1", "--workers", "1", "--batch-size", "16", "--budget", "1"]


def volumes_of(pod, folder):
    """Make a folder for each volume, which the pod's group may write to; return {name: folder}."""
    made = {each["name"]: folder / each["name"] for each in pod["volumes"]}
    for each in made.values():
        each.mkdir()
        os.chown(each, 0, pod["securityContext"]["fsGroup"])
        each.chmod(0o2770)
    return made


def test_the_pods_containers_measure_and_end(engine, images, start, tmp_path):
    (job,) = documents(CHECKOUT / "examples" / "cluster" / "kubernetes.yaml", tmp_path / "packages")
    pod = job["spec"]["template"]["spec"]
    volumes = volumes_of(pod, tmp_path)
    identity = pod["securityContext"]
    containers = {}
    for each in pod["containers"]:
        arguments = [part.replace("$(NODE)", "node1") for part in each["args"]]
        if each["name"] == "node":
            arguments += ONE_ROUND
        containers[each["name"]] = start(
            each["image"].removesuffix("-env:latest"),
            arguments,
            environment=dict.fromkeys((one["name"] for one in each.get("env", [])), "node1"),
            user=f"{identity['runAsUser']}:{identity['runAsGroup']}",
            group_add=[identity["fsGroup"]],
            cap_drop=each["securityContext"]["capabilities"]["drop"],
            security_opt=["no-new-privileges:true"],
            volumes=[f"{volumes[one['name']]}:{one['mountPath']}" for one in each["volumeMounts"]],
        )
    ended = {
        name: container.wait(timeout=PATIENCE)["StatusCode"]
        for name, container in containers.items()
    }
    assert ended == {"node": 0, "gil": 0}, containers["node"].logs().decode()
    (file,) = (volumes["results"] / "node1").glob("2*/results.json")
    found = json.loads(file.read_text())
    assert found["status"] == "complete" and sorted(found["environment"]["twins"]) == ["ft", "gil"]
