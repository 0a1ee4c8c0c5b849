/** A view of a large cluster: what it is, its address, and a text of its content. */
export type LargeView = readonly [what: string, hash: string, content: string];

/** The views of the console on a cluster with a Deployment `big`, a Service `big` and their pods. */
export const largeViews = (pod: string): readonly LargeView[] => [
  ['overview', '#/', 'Recent events'],
  ['resources', '#/resources', 'ConfigMap'],
  ['table of nodes', '#/r/core/v1/nodes', 'sim-1'],
  ['pod', `#/o/core/v1/pods/default/${pod}`, 'Conditions'],
  ['YAML of a pod', `#/o/core/v1/pods/default/${pod}/yaml`, 'Edit'],
  ['managed fields of a pod', `#/o/core/v1/pods/default/${pod}/fields`, 'spec.'],
  ['scheduling of a pod', `#/o/core/v1/pods/default/${pod}/scheduling`, 'What if the pod or the nodes were different?'],
  ['changes of a pod', `#/o/core/v1/pods/default/${pod}/changes`, 'Hide changes of the status'],
  ['Deployment', '#/o/apps/v1/deployments/default/big', 'The rollout is complete'],
  ['events of the Deployment', '#/o/apps/v1/deployments/default/big/events', 'ScalingReplicaSet'],
  ['logs of the Deployment', '#/o/apps/v1/deployments/default/big/logs', 'Filter lines'],
  ['terminal of the Deployment', '#/o/apps/v1/deployments/default/big/terminal', 'Connect'],
  ['revisions', '#/o/apps/v1/deployments/default/big/revisions', 'Revision 1'],
  ['topology', '#/topology', 'What if this node is lost?'],
  ['flow of Services', '#/topology/services', 'ClusterIP'],
  ['denied request', '#/why/access?verb=list&target=pods', 'Rules of the user'],
  ['denied traffic', '#/why/traffic', 'Who may connect to whom'],
  ['traces', '#/traces', 'Slowest of the last 100 rollouts'],
  ['plugin', '#/plugins/role/apiserver', 'apiserver_request_duration_seconds'],
  ['creation', '#/create', 'Check'],
];
