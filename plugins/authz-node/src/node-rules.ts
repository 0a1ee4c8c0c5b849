/** The rules that all nodes share, as `verbs group resources`. From upstream's ClusterRole `system:node`. */
const rows: readonly string[] = [
  'create authentication.k8s.io tokenreviews',
  'create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews',
  'get,list,watch core services',
  'create,patch,update core nodes',
  'patch,update core nodes/status',
  'create,patch,update core events',
  'create,patch,update events.k8s.io events',
  'create,delete core pods',
  'patch,update core pods/status',
  'create core pods/eviction',
  'get core endpoints',
  'create,get,list,watch certificates.k8s.io certificatesigningrequests',
  'get,list,watch storage.k8s.io csidrivers',
  'get,list,watch node.k8s.io runtimeclasses',
  'get,list,watch certificates.k8s.io clustertrustbundles',
];

const allowed: ReadonlySet<string> = new Set(
  rows.flatMap((row) => {
    const [verbs = '', group = '', resources = ''] = row.split(' ');
    return verbs
      .split(',')
      .flatMap((verb) => resources.split(',').map((resource) => `${verb} ${group === 'core' ? '' : group} ${resource}`));
  }),
);

export const nodeRulesAllow = (verb: string, group: string, resource: string): boolean => allowed.has(`${verb} ${group} ${resource}`);
