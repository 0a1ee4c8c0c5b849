/**
 * Behaviors of the conformance list that a test of another name covers, by that test's name: some are covered together, some have a slightly
 * different name here. Names are without their marks (`[Conformance]`).
 */
export const combinedBehaviors: Readonly<Record<string, readonly string[]>> = {
  // sig-node
  "Variable Expansion should allow composing env vars into new env vars, and substituting values in a container's command and args": [
    "[sig-node] Variable Expansion should allow substituting values in a container's args",
    "[sig-node] Variable Expansion should allow substituting values in a container's command",
  ],
  'Downward API should provide pod name, namespace and IP address, host IPs and pod UID as env vars': [
    '[sig-node] Downward API should provide host IP as an env var',
    '[sig-node] Downward API should provide hostIPs as an env var',
  ],
  "Downward API should provide container's limits.cpu/memory and requests.cpu/memory as env vars, and default limits from node allocatable":
    ['[sig-node] Downward API should provide default limits.cpu/memory from node allocatable'],
  'ConfigMap should be consumable from pods in env vars and via the environment, with various prefixes': [
    '[sig-node] ConfigMap should be consumable as environment variable names with various prefixes',
    '[sig-node] ConfigMap should be consumable via environment variable',
  ],
  'Secrets should be consumable from pods in env vars and via the environment, with various prefixes': [
    '[sig-node] Secrets should be consumable as environment variable names variable names with various prefixes',
    '[sig-node] Secrets should be consumable from pods in env vars',
  ],
  'Security Context should support pod.Spec.SecurityContext.RunAsUser And RunAsGroup, also of the container': [
    '[sig-node] Security Context should support container.SecurityContext.RunAsUser And container.SecurityContext.RunAsGroup',
    '[sig-node] Security Context should support pod.Spec.SecurityContext.RunAsUser And pod.Spec.SecurityContext.RunAsGroup',
  ],
  'Security Context When creating a pod with readOnlyRootFilesystem should run the container with writable rootfs when readOnlyRootFilesystem=false; Kubelet should not write to root filesystem otherwise':
    ['[sig-node] Kubelet when scheduling a read only busybox container should not write to root filesystem'],
  'Sysctls should support sysctls, and reject invalid ones': ['[sig-node] Sysctls should reject invalid sysctls'],
  'Kubelet when scheduling a busybox command that always fails in a pod should have a terminated reason, and be possible to delete': [
    '[sig-node] Kubelet when scheduling a busybox command that always fails in a pod should have an terminated reason',
  ],
  'InitContainer should not start app containers if init containers fail on a RestartNever pod': [
    '[sig-node] InitContainer should not start app containers and fail the pod if init containers fail on a RestartNever pod',
  ],
  'Ephemeral Containers will start an ephemeral container in an existing pod, and should update them': [
    '[sig-node] Ephemeral Containers should update the ephemeral containers in an existing pod',
  ],
  'Pod Generation: starts at 1, counts updates and the graceful deletion, and observedGeneration converges': [
    '[sig-node] Pods Extended (pod generation) Pod Generation custom-set generation on new pods and graceful delete',
    '[sig-node] Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify generation and observedGeneration eventually converge',
    '[sig-node] Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per update',
  ],
  'RuntimeClass should reject a Pod requesting a non-existent or deleted RuntimeClass, and schedule others, with and without PodOverhead': [
    '[sig-node] RuntimeClass should reject a Pod requesting a non-existent RuntimeClass',
    '[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead',
    '[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass without PodOverhead',
  ],
  'Pod InPlace Resize Container guaranteed pods with multiple containers: increases and decreases of cpu and memory, net increase and net decrease':
    [
      '[sig-node] Pod InPlace Resize Container guaranteed pods with multiple containers 3 containers - increase cpu & mem on c1, c2, decrease cpu & mem on c3 - net increase',
      '[sig-node] Pod InPlace Resize Container guaranteed pods with multiple containers 3 containers - increase cpu & mem on c1, decrease cpu & mem on c2, c3 - net decrease',
      '[sig-node] Pod InPlace Resize Container guaranteed pods with multiple containers 3 containers - increase: CPU (c1,c3), memory (c2, c3) ; decrease: CPU (c2)',
    ],
  'Pods should support remote command execution and retrieving logs over websockets': [
    '[sig-node] Pods should support retrieving logs from the container over websockets',
  ],

  // sig-network
  'Proxy version v1 A set of valid responses are returned for both pod and service ProxyWithPath: GET': [
    '[sig-network] Proxy version v1 A set of valid responses are returned for both pod and service ProxyWithPath',
  ],
  'Proxy version v1 A set of valid responses are returned for both pod and service Proxy: redirects are rewritten to the proxy path': [
    '[sig-network] Proxy version v1 A set of valid responses are returned for both pod and service Proxy',
  ],
  'EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service; should create and delete them for a Service with a selector':
    [
      '[sig-network] EndpointsController should create Endpoints for Pods matching a Service',
      '[sig-network] EndpointsController should create and delete Endpoints for a Service with a selector that matches no pods',
      '[sig-network] EndpointSlice should create and delete EndpointSlices for a Service with a selector that matches no pods',
    ],
  'EndpointSlice should support a Service with multiple ports specified in multiple EndpointSlices; with multiple endpoint IPs': [
    '[sig-network] EndpointSlice should support a Service with multiple endpoint IPs specified in multiple EndpointSlices',
  ],
  'Services should have session affinity work for service with type clusterIP; should be able to switch session affinity': [
    '[sig-network] Services should be able to switch session affinity for service with type clusterIP',
  ],
  'Services should be able to create a functioning NodePort service; should have session affinity work for NodePort service, and be able to switch':
    ['[sig-network] Services should be able to switch session affinity for NodePort service'],
  'Services should be able to change the type from ExternalName to ClusterIP and NodePort, from ClusterIP and NodePort to ExternalName': [
    '[sig-network] Services should be able to change the type from ClusterIP to ExternalName',
  ],

  // sig-storage
  'Downward API volume should provide podname only, and set modes on files': [
    '[sig-storage] Downward API volume should set DefaultMode on files',
    '[sig-storage] Downward API volume should set mode on item file',
  ],
  "Downward API volume should provide container's limits.cpu": ["[sig-storage] Downward API volume should provide container's cpu limit"],
  "Downward API volume should provide container's requests.cpu": [
    "[sig-storage] Downward API volume should provide container's cpu request",
  ],
  "Downward API volume should provide container's limits.memory": [
    "[sig-storage] Downward API volume should provide container's memory limit",
  ],
  "Downward API volume should provide container's requests.memory": [
    "[sig-storage] Downward API volume should provide container's memory request",
  ],
  'Downward API volume should provide node allocatable as default limit if the limit is not set': [
    '[sig-storage] Downward API volume should provide node allocatable (cpu) as default cpu limit if the limit is not set',
    '[sig-storage] Downward API volume should provide node allocatable (memory) as default memory limit if the limit is not set',
  ],
  'Projected downwardAPI should provide podname only, and set modes on files': [
    '[sig-storage] Projected downwardAPI should set DefaultMode on files',
    '[sig-storage] Projected downwardAPI should set mode on item file',
  ],
  "Projected downwardAPI should provide container's limits.cpu": [
    "[sig-storage] Projected downwardAPI should provide container's cpu limit",
  ],
  "Projected downwardAPI should provide container's requests.cpu": [
    "[sig-storage] Projected downwardAPI should provide container's cpu request",
  ],
  "Projected downwardAPI should provide container's limits.memory": [
    "[sig-storage] Projected downwardAPI should provide container's memory limit",
  ],
  "Projected downwardAPI should provide container's requests.memory": [
    "[sig-storage] Projected downwardAPI should provide container's memory request",
  ],
  'Projected downwardAPI should provide node allocatable as default limit if the limit is not set': [
    '[sig-storage] Projected downwardAPI should provide node allocatable (cpu) as default cpu limit if the limit is not set',
    '[sig-storage] Projected downwardAPI should provide node allocatable (memory) as default memory limit if the limit is not set',
  ],
  'EmptyDir volumes volume on default should have the correct mode': [
    '[sig-storage] EmptyDir volumes volume on default medium should have the correct mode',
  ],
  'Projected secret should be consumable from pods in volume with mappings and Item mode set': [
    '[sig-storage] Projected secret should be consumable from pods in volume with mappings and Item Mode set',
  ],
  'Projected secret should be consumable in multiple volumes in the same pod': [
    '[sig-storage] Projected secret should be consumable in multiple volumes in a pod',
  ],
  'Secrets should be consumable from pods in volume with mappings and Item mode set': [
    '[sig-storage] Secrets should be consumable from pods in volume with mappings and Item Mode set',
  ],
  'Secrets should be consumable in multiple volumes in the same pod': [
    '[sig-storage] Secrets should be consumable in multiple volumes in a pod',
  ],

  // sig-cli
  'Kubectl client Kubectl label should update the label, and Kubectl patch add annotations for pods': [
    '[sig-cli] Kubectl client Kubectl label should update the label on a resource',
    '[sig-cli] Kubectl client Kubectl patch should add annotations for pods in rc',
  ],
  "Kubectl client Kubectl replace should update a single-container pod's image, and server-side dry-run not": [
    '[sig-cli] Kubectl client Kubectl server-side dry-run should check if kubectl can dry-run update Pods',
  ],
};
