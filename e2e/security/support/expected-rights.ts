/**
 * Rights of subjects in a new cluster, as `verbs | group | resources`: the bootstrap policy of Kubernetes 1.36, except for the rows that are
 * marked as Oarlock's own. A right that is not listed does not exist.
 */
export type RightRow = string;

/** system:basic-user, for every authenticated user. */
export const ofAuthenticated: readonly RightRow[] = [
  'create | authentication.k8s.io | selfsubjectreviews',
  'create | authorization.k8s.io | selfsubjectaccessreviews,selfsubjectrulesreviews',
];

const all = 'create,delete,deletecollection,get,list,patch,update,watch';

/** The ClusterRole `admin` in the namespace of its binding: aggregated from system:aggregate-to-admin, -edit and -view. */
export const ofNamespaceAdmin: readonly RightRow[] = [
  'create | core | pods/eviction,serviceaccounts/token',
  `${all} | core | serviceaccounts,configmaps,events,persistentvolumeclaims,pods,replicationcontrollers,replicationcontrollers/scale,secrets,services`,
  `${all} | core | pods/attach,pods/exec,pods/portforward,pods/proxy,services/proxy`,
  'get,list,watch | core | bindings,endpoints,limitranges,persistentvolumeclaims/status,pods/log,pods/status',
  // list and watch of namespaces are not requests in a namespace
  'get | core | namespaces,namespaces/status',
  'get,list,watch | core | replicationcontrollers/status,resourcequotas,resourcequotas/status,services/status',
  `${all} | apps | daemonsets,deployments,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale`,
  'get,list,watch | apps | controllerrevisions,daemonsets/status,deployments/status,replicasets/status,statefulsets/status',
  'create | authorization.k8s.io | localsubjectaccessreviews',
  `${all} | autoscaling | horizontalpodautoscalers`,
  'get,list,watch | autoscaling | horizontalpodautoscalers/status',
  `${all} | batch | cronjobs,jobs`,
  'get,list,watch | batch | cronjobs/status,jobs/status',
  `${all} | coordination.k8s.io | leases`,
  'get,list,watch | discovery.k8s.io | endpointslices',
  `${all} | events.k8s.io | events`,
  `${all} | networking.k8s.io | ingresses,networkpolicies`,
  'get,list,watch | networking.k8s.io | ingresses/status',
  `${all} | policy | poddisruptionbudgets`,
  'get,list,watch | policy | poddisruptionbudgets/status',
  `${all} | rbac.authorization.k8s.io | rolebindings,roles`,
  `${all} | resource.k8s.io | resourceclaims,resourceclaimtemplates`,
  'get,list,watch | resource.k8s.io | resourceclaims/status',
];

/** The node authorizer, for objects that no pod of the node refers to and without field selectors. */
export const ofNode: readonly RightRow[] = [
  'get,list,watch | core | services',
  'create,patch,update | core | nodes',
  'patch,update | core | nodes/status,pods/status',
  'create,patch,update | core | events',
  'create,delete | core | pods',
  'create | core | pods/eviction',
  'get | core | endpoints',
  'create,patch,update | events.k8s.io | events',
  'create | authentication.k8s.io | tokenreviews',
  'create | authorization.k8s.io | localsubjectaccessreviews,subjectaccessreviews',
  'create,get,list,watch | certificates.k8s.io | certificatesigningrequests',
  'get,list,watch | node.k8s.io | runtimeclasses',
  'get,list,watch | storage.k8s.io | csidrivers',
  // the authorizer does not know the object; NodeRestriction compares it with the node
  'create | storage.k8s.io | csinodes',
  'create | resource.k8s.io | resourceslices',
];

/** Rights of nodes that upstream's nodes do not have by default, with the reason. docs/security.md lists the same ones. */
export const extraOfNode: readonly (readonly [RightRow, string])[] = [
  ['get,list,watch | certificates.k8s.io | clustertrustbundles', 'projected volumes of ClusterTrustBundles'],
  ['get,list,watch | core | nodes', 'system:node-proxier: a joined node proxies Services with the certificate of its kubelet'],
  ['list,watch | core | endpoints', 'system:node-proxier'],
  ['list,watch | discovery.k8s.io | endpointslices', 'system:node-proxier'],
  ['list,watch | networking.k8s.io | servicecidrs', 'system:node-proxier'],
  ['get | core | namespaces', 'a kubelet without pod isolation rejects pods of namespaces that enforce the restricted standard'],
  ['get | core | pods', 'pods that do not exist: the kubelet learns that a pod is gone; 403 and 404 reveal whether a name is in use'],
];

/** Returns the rights of rows as `verb group/resource`. */
export function rightsOf(rows: readonly RightRow[]): ReadonlySet<string> {
  return new Set(
    rows.flatMap((row) => {
      const [verbs = '', group = '', resources = ''] = row.split(' | ');
      return verbs
        .split(',')
        .flatMap((verb) => resources.split(',').map((resource) => `${verb} ${group === 'core' ? '' : group}/${resource}`));
    }),
  );
}
