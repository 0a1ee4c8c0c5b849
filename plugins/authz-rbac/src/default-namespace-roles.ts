import type { RoleRow } from './default-rows.ts';

/** Roles of Kubernetes 1.36 in kube-system and kube-public, and roles of Oarlock. */
export const namespaceRoleRows: readonly RoleRow[] = [
  // the DNS servers of the API server's process and of joined nodes; admission limits a node to its own slice
  {
    namespace: 'kube-system',
    name: 'system:oarlock:dns',
    rules: ['create,get | core | services', 'create,delete,get,update | discovery.k8s.io | endpointslices'],
  },
  // processes without an API server follow the addresses of the API servers
  { namespace: 'default', name: 'oarlock:api-servers', rules: ['get,list,watch | discovery.k8s.io | endpointslices | kubernetes'] },
  { namespace: 'kube-system', name: 'oarlock:node-dns', rules: ['create,delete,get,update | discovery.k8s.io | endpointslices'] },
  {
    namespace: 'kube-public',
    name: 'system:controller:bootstrap-signer',
    rules: [
      'get,list,watch | core | configmaps',
      'update | core | configmaps | cluster-info',
      'create,patch,update | core,events.k8s.io | events',
    ],
  },
  {
    namespace: 'kube-system',
    name: 'extension-apiserver-authentication-reader',
    rules: ['get,list,watch | core | configmaps | extension-apiserver-authentication'],
  },
  {
    namespace: 'kube-system',
    name: 'system::leader-locking-kube-controller-manager',
    rules: [
      'create,get,list,update,watch | coordination.k8s.io | leases',
      'create,get,list,update,watch | coordination.k8s.io | leasecandidates',
    ],
  },
  {
    namespace: 'kube-system',
    name: 'system::leader-locking-kube-scheduler',
    rules: [
      'create,get,list,update,watch | coordination.k8s.io | leases',
      'create,get,list,update,watch | coordination.k8s.io | leasecandidates',
    ],
  },
  { namespace: 'kube-system', name: 'system:controller:bootstrap-signer', rules: ['get,list,watch | core | secrets'] },
  { namespace: 'kube-system', name: 'system:controller:cloud-provider', rules: ['create,get,list,watch | core | configmaps'] },
  {
    namespace: 'kube-system',
    name: 'system:controller:token-cleaner',
    rules: ['delete,get,list,watch | core | secrets', 'create,patch,update | core,events.k8s.io | events'],
  },
];
