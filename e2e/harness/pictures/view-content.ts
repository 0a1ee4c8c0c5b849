/**
 * The texts that a picture of a view shows: the headings of its panels, and words of their content. A picture tolerates other numbers and names, so that a small
 * panel could be missing in it.
 */
export const viewContent: Readonly<Record<string, readonly string[]>> = {
  'console-changes': ['Changes', 'data.a', 'oarlock-console (Update)', 'User: kubernetes-admin', 'The object was created'],
  'console-completion': ['Create from YAML', 'selector', 'required', 'Ctrl+Space'],
  'console-create': ['Create from YAML', 'kind: Deployment', 'Check', 'Apply'],
  'console-edit': ['terminationGracePeriodSeconds: 30', 'terminationGracePeriodSeconds: 2', 'Apply'],
  'console-logs': ['Filter lines', 'listens on 127.'],
  'console-overview': ['Overview', 'Nodes', 'Workloads', 'Capacity', 'Control plane', 'Stored objects', 'Storage size', 'Recent events'],
  'console-plugins': ['Plugins', 'console', 'maxSessionsPerUser: 20'],
  'console-resources': ['Resources', 'ConfigMap', 'Search objects'],
  'console-revisions': ['Revision 1', 'Revision 2 (current)', 'Roll back'],
  'console-scheduling': ['NodeResourcesFit: Insufficient cpu', 'CPU request of the first container', 'Evaluate'],
  'console-services': ['Topology', 'default/hello', 'Ready', 'node-a'],
  'console-table': ['Pod', 'Namespace', 'hostile', 'Running'],
  'console-terminal': ['Disconnect', 'Command', '42-in-the-pod'],
  'console-topology': ['Topology', 'Pods without a node: 1', 'node-a', 'What if this node is lost?'],
  'console-trace': ['Only the critical path and failed steps', 'deployments.apps/default/hello'],
  'console-traces': ['Traces', 'Slowest of the last 100 rollouts', 'Step'],
  'console-why-access': ['may not list secrets in namespace default', 'Rules of the user', 'authz-rbac: no-opinion'],
  'console-why-traffic': ['may not connect to', 'Denied: no rule of default/hello-clients allows it'],
  'console-workload': ['Deployment', 'The rollout is complete', 'Owned objects', 'Related objects'],
};
