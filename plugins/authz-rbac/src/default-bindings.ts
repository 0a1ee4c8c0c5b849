import type { BindingRow } from './default-rows.ts';

/** The subjects of the default ClusterRoleBindings. The service account of each controller is bound to the ClusterRole of the controller's name. */
export const clusterBindingRows: readonly BindingRow[] = [
  { name: 'cluster-admin', to: ['group system:masters'] },
  { name: 'system:basic-user', to: ['group system:authenticated'] },
  { name: 'system:discovery', to: ['group system:authenticated'] },
  { name: 'system:kube-controller-manager', to: ['user system:kube-controller-manager'] },
  { name: 'system:kube-dns', to: ['account kube-system/kube-dns'] },
  { name: 'system:kube-scheduler', to: ['user system:kube-scheduler'] },
  { name: 'system:monitoring', to: ['group system:monitoring'] },
  { name: 'system:node', to: [] },
  { name: 'system:node-proxier', to: ['user system:kube-proxy'] },
  { name: 'system:public-info-viewer', to: ['group system:authenticated', 'group system:unauthenticated'] },
  { name: 'system:service-account-issuer-discovery', to: ['group system:serviceaccounts'] },
  { name: 'system:volume-scheduler', to: ['user system:kube-scheduler'] },
  { name: 'oarlock:public-info-viewer', to: ['group system:authenticated', 'group system:unauthenticated'] },
  { name: 'oarlock:node-joiner', to: ['group system:bootstrappers'] },
  { name: 'oarlock:server-joiner', to: ['group system:bootstrappers:oarlock:servers'] },
  // kubelets authorize requests of the API server by the user that its certificate names
  { name: 'oarlock:kube-apiserver-kubelet-client', role: 'system:kubelet-api-admin', to: ['user kube-apiserver-kubelet-client'] },
  // as kubeadm binds them: a bootstrap token obtains a node certificate, and nodes renew their certificates
  { name: 'oarlock:node-bootstrapper', role: 'system:node-bootstrapper', to: ['group system:bootstrappers'] },
  {
    name: 'oarlock:node-client-certificates',
    role: 'system:certificates.k8s.io:certificatesigningrequests:nodeclient',
    to: ['group system:bootstrappers'],
  },
  {
    name: 'oarlock:node-client-rotation',
    role: 'system:certificates.k8s.io:certificatesigningrequests:selfnodeclient',
    to: ['group system:nodes'],
  },
  { name: 'oarlock:certificatesigningrequests:selfnodeserver', to: ['group system:nodes'] },
  { name: 'oarlock:node', to: ['group system:nodes'] },
  {
    name: 'oarlock:tracing',
    role: 'oarlock:node',
    to: ['user system:kube-controller-manager', 'user system:kube-proxy', 'user system:kube-scheduler'],
  },
  { name: 'oarlock:node-addresses', to: ['group system:nodes'] },
  { name: 'oarlock:leader-election', to: ['user system:kube-controller-manager'] },
  { name: 'oarlock:gang-scheduling', to: ['user system:kube-scheduler'] },
  // permissions that Kubernetes' roles of the same components do not have
  ...[
    'certificate-controller',
    'device-taint-eviction-controller',
    'ip-blocks-controller',
    'cloud-node-controller',
    'service-controller',
    'storage-version-migrator-controller',
  ].map((account): BindingRow => ({ name: `oarlock:controller:${account}`, to: [`account kube-system/${account}`] })),
  { name: 'oarlock:simulated-nodes', role: 'system:node', to: ['user system:oarlock:simulated-nodes'] },
  // the service proxy of a joined node uses the certificate of the kubelet
  { name: 'system:oarlock:volumes', to: ['user system:oarlock:volumes'] },
  { name: 'oarlock:metrics-server', to: ['user system:metrics-server'] },
  // a kubelet whose runtime cannot isolate pods reads the Pod Security Standard of their namespaces
  { name: 'oarlock:node-namespaces', to: ['group system:nodes'] },
  { name: 'oarlock:node-proxier', role: 'system:node-proxier', to: ['group system:nodes'] },
];

/** The binding for nodes that enforce NetworkPolicies with their kubelets' certificates. Kubernetes does not let nodes list the pods of other nodes. */
export const nodePoliciesRow: BindingRow = { name: 'oarlock:node-network-policies', to: ['group system:nodes'] };

/** The binding for nodes that create local volumes, as csi-hostpath does. admission-node-restriction limits each node to its own volumes. */
export const nodeVolumesRow: BindingRow = { name: 'oarlock:node-volumes', to: ['group system:nodes'] };

/** The subjects of the default RoleBindings, whose Roles are in the same namespace. */
export const namespaceBindingRows: readonly BindingRow[] = [
  { namespace: 'kube-system', name: 'system:oarlock:dns', to: ['user system:oarlock:dns'] },
  { namespace: 'default', name: 'oarlock:api-servers', to: ['user system:kube-controller-manager', 'user system:kube-scheduler'] },
  { namespace: 'kube-system', name: 'oarlock:node-dns', to: ['group system:nodes'] },
  { namespace: 'kube-public', name: 'system:controller:bootstrap-signer', to: ['account kube-system/bootstrap-signer'] },
  {
    namespace: 'kube-system',
    name: 'system::extension-apiserver-authentication-reader',
    role: 'extension-apiserver-authentication-reader',
    to: ['user system:kube-controller-manager', 'user system:kube-scheduler'],
  },
  {
    namespace: 'kube-system',
    name: 'system::leader-locking-kube-controller-manager',
    to: [
      'user system:kube-controller-manager',
      'account kube-system/kube-controller-manager',
      'account kube-system/leader-election-controller',
    ],
  },
  {
    namespace: 'kube-system',
    name: 'system::leader-locking-kube-scheduler',
    to: ['user system:kube-scheduler', 'account kube-system/kube-scheduler'],
  },
  { namespace: 'kube-system', name: 'system:controller:bootstrap-signer', to: ['account kube-system/bootstrap-signer'] },
  { namespace: 'kube-system', name: 'system:controller:cloud-provider', to: ['account kube-system/cloud-provider'] },
  { namespace: 'kube-system', name: 'system:controller:token-cleaner', to: ['account kube-system/token-cleaner'] },
];
