/** A view of the console: what it is, its address, and a text of its content. */
type View = readonly [what: string, hash: string, content: string];

/** The names of objects of a cluster: a Deployment with its first revision, one of its pods, and a node. */
export interface ViewedObjects {
  readonly deployment: string;
  readonly pod: string;
  readonly node: string;
}

/** Returns the views of the console for these objects of the namespace `default`. */
export const everyView = ({ deployment, pod, node }: ViewedObjects): readonly View[] => [
  ['overview', '#/', 'Recent events'],
  ['resources', '#/resources', 'ConfigMap'],
  ['table of nodes', '#/r/core/v1/nodes', node],
  ['pod', `#/o/core/v1/pods/default/${pod}`, 'Conditions'],
  ['YAML of a pod', `#/o/core/v1/pods/default/${pod}/yaml`, 'Edit'],
  ['managed fields of a pod', `#/o/core/v1/pods/default/${pod}/fields`, 'spec.'],
  ['scheduling of a pod', `#/o/core/v1/pods/default/${pod}/scheduling`, 'What if the pod or the nodes were different?'],
  ['changes of a pod', `#/o/core/v1/pods/default/${pod}/changes`, 'Hide changes of the status'],
  ['Deployment', `#/o/apps/v1/deployments/default/${deployment}`, 'The rollout is complete'],
  ['events of the Deployment', `#/o/apps/v1/deployments/default/${deployment}/events`, 'ScalingReplicaSet'],
  ['logs of the Deployment', `#/o/apps/v1/deployments/default/${deployment}/logs`, 'Filter lines'],
  ['terminal of the Deployment', `#/o/apps/v1/deployments/default/${deployment}/terminal`, 'Connect'],
  ['revisions', `#/o/apps/v1/deployments/default/${deployment}/revisions`, 'Revision 1'],
  ['topology', '#/topology', 'What if this node is lost?'],
  ['flow of Services', '#/topology/services', 'ClusterIP'],
  ['denied request', '#/why/access?verb=list&target=pods', 'Rules of the user'],
  ['denied traffic', '#/why/traffic', 'Who may connect to whom'],
  ['traces', '#/traces', 'Slowest of the last 100 rollouts'],
  ['plugin', '#/plugins/role/apiserver', 'apiserver_request_duration_seconds'],
  ['creation', '#/create', 'Check'],
];
