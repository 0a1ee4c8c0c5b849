import { createHash } from 'node:crypto';
import type { KubeObject } from '@oarlock/api/object';
import type { PolicyRule, RoleRef, Subject } from '@oarlock/api/types/rbac-v1';
import { describe, expect, it } from 'vitest';
import { defaultObjects } from '../src/default-objects.ts';

/** Returns the permissions of a role, sorted, one per line. */
const rightsOf = (rules: readonly PolicyRule[] = []): string =>
  [
    ...new Set(
      rules.flatMap(({ verbs, apiGroups = [], resources = [], resourceNames = [''], nonResourceURLs = [] }) =>
        verbs.flatMap((verb) => [
          ...nonResourceURLs.map((path) => `${verb} ${path}`),
          ...apiGroups.flatMap((group) => resources.flatMap((each) => resourceNames.map((name) => `${verb} ${group} ${each} ${name}`))),
        ]),
      ),
    ),
  ]
    .sort()
    .join('\n');
const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);
const key = ({ metadata }: KubeObject): string => [metadata?.namespace, metadata?.name].filter(Boolean).join('/');

/** Digests of the permissions in upstream's bootstrap policy of 1.36: a role of upstream grants neither more nor less. */
const upstreamRoles: ReadonlyMap<string, string> = new Map([
  ['admin', 'e3b0c44298fc1c14'],
  ['cluster-admin', '26f7c6ac421e2eaf'],
  ['edit', 'e3b0c44298fc1c14'],
  ['kube-public/system:controller:bootstrap-signer', '6de82b1dcc15f5c2'],
  ['kube-system/extension-apiserver-authentication-reader', 'fdb96e66557c4104'],
  ['kube-system/system::leader-locking-kube-controller-manager', '437e48017f42d992'],
  ['kube-system/system::leader-locking-kube-scheduler', '437e48017f42d992'],
  ['kube-system/system:controller:bootstrap-signer', '3da00a601d183020'],
  ['kube-system/system:controller:cloud-provider', 'd699c09dda6218e1'],
  ['kube-system/system:controller:token-cleaner', '84b6ed04b1b5a313'],
  ['system:aggregate-to-admin', 'da5157faae8fdb19'],
  ['system:aggregate-to-edit', '1cf2fc8cec8d36a4'],
  ['system:aggregate-to-view', '062fa2191832eb36'],
  ['system:auth-delegator', '2b7fc063bd7fe7c7'],
  ['system:basic-user', '3ce5b145cc2d4e7a'],
  ['system:certificates.k8s.io:certificatesigningrequests:nodeclient', 'c1f44c81d30ffea4'],
  ['system:certificates.k8s.io:certificatesigningrequests:selfnodeclient', '22ca26e091649091'],
  ['system:certificates.k8s.io:kube-apiserver-client-approver', 'f3129e32739bcb63'],
  ['system:certificates.k8s.io:kube-apiserver-client-kubelet-approver', 'fcb577f4ab7c7dea'],
  ['system:certificates.k8s.io:kubelet-serving-approver', 'd370793536c4a29e'],
  ['system:certificates.k8s.io:legacy-unknown-approver', '8dfcfd7117635bb0'],
  ['system:controller:attachdetach-controller', 'afda451327566017'],
  ['system:controller:certificate-controller', 'da559e0977336b0c'],
  ['system:controller:clusterrole-aggregation-controller', '3b29ddadbe07385c'],
  ['system:controller:cronjob-controller', 'fd5dc96acfc40935'],
  ['system:controller:daemon-set-controller', '48255bd9b16b57c1'],
  ['system:controller:deployment-controller', '4c489bf969c83950'],
  ['system:controller:device-taint-eviction-controller', '20e16d1ac4dd2f5e'],
  ['system:controller:disruption-controller', 'e007602ea4d3f539'],
  ['system:controller:endpoint-controller', 'f3bc047d64480394'],
  ['system:controller:endpointslice-controller', 'bf25eda7230ceeb9'],
  ['system:controller:endpointslicemirroring-controller', 'a7006a1ee2f2ec61'],
  ['system:controller:ephemeral-volume-controller', '0afd585fe39b2463'],
  ['system:controller:expand-controller', '248bf0c00be93844'],
  ['system:controller:generic-garbage-collector', 'eaf1bb7bf2ddf04d'],
  ['system:controller:horizontal-pod-autoscaler', '7d6484e20fed6bb6'],
  ['system:controller:job-controller', '54502414f404d05d'],
  ['system:controller:legacy-service-account-token-cleaner', '155f4d03358ab200'],
  ['system:controller:namespace-controller', '9a277a05af6c165c'],
  ['system:controller:node-controller', 'd7f328a06fa06eeb'],
  ['system:controller:persistent-volume-binder', 'd6f353bc1f574119'],
  ['system:controller:pod-garbage-collector', '993c023f166ac86f'],
  ['system:controller:pv-protection-controller', '5bc002e0461cac83'],
  ['system:controller:pvc-protection-controller', 'ad9f03bdba012db4'],
  ['system:controller:replicaset-controller', '3fee571f878cff68'],
  ['system:controller:replication-controller', 'c7f18c948bb187af'],
  ['system:controller:resource-claim-controller', '57682e5746f06558'],
  ['system:controller:resourcequota-controller', 'c65abfa017454613'],
  ['system:controller:root-ca-cert-publisher', 'a493322b2ad9be7b'],
  ['system:controller:route-controller', 'fe6308297cd05d2e'],
  ['system:controller:selinux-warning-controller', 'd53c22d93da2816c'],
  ['system:controller:service-account-controller', '50b3fc3340c40d40'],
  ['system:controller:service-ca-cert-publisher', 'a493322b2ad9be7b'],
  ['system:controller:service-cidrs-controller', '770bad5535ab052c'],
  ['system:controller:service-controller', 'f83edc8eca274378'],
  ['system:controller:statefulset-controller', '7926d55797915f72'],
  ['system:controller:ttl-after-finished-controller', 'eaab2d6e50d2b237'],
  ['system:controller:ttl-controller', '1fdad5add86317be'],
  ['system:controller:validatingadmissionpolicy-status-controller', 'acbd7d73cf9a532f'],
  ['system:controller:volumeattributesclass-protection-controller', '9941d168fc8b264f'],
  ['system:discovery', '321859d075890493'],
  ['system:heapster', '3fa4f1f7d151a1e1'],
  ['system:kube-aggregator', '25aa5132d037fd18'],
  ['system:kube-controller-manager', '1e9647206fb97a0a'],
  ['system:kube-dns', 'c5c264181cb2b0b4'],
  ['system:kube-scheduler', '466e0959619b563e'],
  ['system:kubelet-api-admin', '88f8715722c5409c'],
  ['system:monitoring', '0b50e2779442a425'],
  ['system:node', 'aa381e64a69b1e48'],
  ['system:node-bootstrapper', 'fbd9b7629bb93684'],
  ['system:node-problem-detector', 'c1810bd37c33b1b4'],
  ['system:node-proxier', 'd7348601ce617e86'],
  ['system:persistent-volume-provisioner', 'e121db7b934a54b1'],
  ['system:public-info-viewer', 'a2b6ebd39085d6ca'],
  ['system:service-account-issuer-discovery', '500c08d32b88fca7'],
  ['system:volume-scheduler', '4948b351e32ec87b'],
  ['view', 'e3b0c44298fc1c14'],
]);

/** The reason for each role that upstream does not have. A binding of the same name needs no further reason. */
const ownRoles: Readonly<Record<string, string>> = {
  'oarlock:public-info-viewer': 'machines that join read the CA before they have credentials, and check its hash',
  'oarlock:node-joiner': '`oarlock node join` posts to the join path with a bootstrap token',
  'oarlock:server-joiner': '`oarlock server join` posts to the join path of servers with a bootstrap token for servers',
  'oarlock:node': 'nodes send their spans',
  'oarlock:node-addresses': 'network-bridge keeps address blocks in the API; admission-node-restriction holds a node to its own',
  'oarlock:node-namespaces': 'a kubelet whose runtime cannot isolate pods rejects those of namespaces that enforce the standard restricted',
  'oarlock:metrics-server': 'controller-metrics-server reads the metrics of kubelets with a client certificate of its own',
  'oarlock:node-network-policies':
    'with `nodePolicies`: each node enforces NetworkPolicies, which name pods and namespaces of the whole cluster',
  'oarlock:node-volumes':
    "with `nodeVolumes`: csi-hostpath provisions on its node; admission-node-restriction holds PersistentVolumes to the node, to claims scheduled to it and to the secrets of the claim's StorageClass",
  'system:oarlock:volumes': 'the CSI sidecars of the process with the API server, as a user of their own',
  'oarlock:gang-scheduling': "upstream's scheduler has these rights with the feature gate for pod groups",
  'oarlock:leader-election': 'the controller manager elects leaders among candidates, which upstream does in the API server',
  'oarlock:controller:certificate-controller': 'serving certificates of nodes that joined are approved after checks of their addresses',
  'oarlock:certificatesigningrequests:selfnodeserver': 'marks nodes whose serving certificates may be approved automatically',
  'oarlock:controller:device-taint-eviction-controller': 'upstream has these rights with the feature gate DRADeviceTaintRules',
  'oarlock:controller:ip-blocks-controller': 'takes address blocks back from nodes that are gone',
  'oarlock:controller:cloud-node-controller': 'upstream runs it in a cloud controller manager with a role of its own',
  'oarlock:controller:service-controller':
    'sets the finalizer of load balancers, for which upstream has a role of the cloud controller manager',
  'oarlock:controller:storage-version-migrator-controller': 'writes objects of every kind again; upstream has it behind a feature gate',
  'default/oarlock:api-servers': 'controller managers and schedulers follow the addresses of the API servers, as node proxies may already',
  'kube-system/system:oarlock:dns': 'the DNS server of the process with the API server makes its Service',
  'kube-system/oarlock:node-dns':
    'a node that joined adds its DNS server to the Service kube-dns; admission-node-restriction holds it to its own slice',
};
/** The reason for each subject that is not bound to the role upstream. */
const ownBindings: Readonly<Record<string, string>> = {
  'oarlock:node-bootstrapper': 'as kubeadm binds it: a bootstrap token is good for a certificate request',
  'oarlock:node-client-certificates': "as kubeadm binds it: a bootstrap token is good for a node's client certificate",
  'oarlock:node-client-rotation': 'as kubeadm binds it: nodes renew their client certificate',
  'oarlock:tracing': 'control plane processes send their spans',
  'oarlock:simulated-nodes': 'nodes of runtime-simulated share one user of the process with the API server',
  'oarlock:kube-apiserver-kubelet-client': 'kubelets authorize the API server by a user without groups, not by the group system:masters',
  'oarlock:node-proxier': 'a node that joined proxies Services with the certificate of its kubelet',
};

/** Subjects of upstream's bindings, sorted, by binding. The service account of each controller is bound to the role of its name. */
const upstreamSubjects: Readonly<Record<string, readonly string[]>> = {
  'cluster-admin': ['Group system:masters'],
  'system:basic-user': ['Group system:authenticated'],
  'system:discovery': ['Group system:authenticated'],
  'system:kube-controller-manager': ['User system:kube-controller-manager'],
  'system:kube-dns': ['ServiceAccount kube-system/kube-dns'],
  'system:kube-scheduler': ['User system:kube-scheduler'],
  'system:monitoring': ['Group system:monitoring'],
  'system:node': [],
  'system:node-proxier': ['User system:kube-proxy'],
  'system:public-info-viewer': ['Group system:authenticated', 'Group system:unauthenticated'],
  'system:service-account-issuer-discovery': ['Group system:serviceaccounts'],
  'system:volume-scheduler': ['User system:kube-scheduler'],
};

const everything = defaultObjects({ nodePolicies: true, nodeVolumes: true });
const roles = [...everything.clusterRoles, ...everything.roles];
const bindings: readonly (KubeObject & { readonly subjects?: readonly Subject[]; readonly roleRef: RoleRef })[] = [
  ...everything.clusterRoleBindings,
  ...everything.roleBindings,
];
const controller = 'system:controller:';

describe('default roles', () => {
  it('include all roles of upstream', () => {
    expect([...upstreamRoles.keys()].filter((name) => !roles.some((role) => key(role) === name))).toEqual([]);
  });
  it.each(roles.filter((role) => upstreamRoles.has(key(role))).map((role) => [key(role), role.rules] as const))(
    "%s grants what upstream's does",
    (name, rules) => {
      expect(digest(rightsOf(rules))).toBe(upstreamRoles.get(name));
    },
  );
  it('without a role upstream have a reason', () => {
    const own = roles.map(key).filter((name) => !upstreamRoles.has(name));
    expect(own.sort()).toEqual(Object.keys(ownRoles).sort());
  });
});

describe('default bindings', () => {
  it('of cluster roles have the subjects of upstream', () => {
    for (const { metadata, subjects = [] } of everything.clusterRoleBindings) {
      const name = metadata?.name ?? '';
      if (name in ownRoles || name in ownBindings) continue;
      const wanted = name.startsWith(controller) ? [`ServiceAccount kube-system/${name.slice(controller.length)}`] : upstreamSubjects[name];
      expect([
        name,
        subjects.map(({ kind, namespace, name: subject }) => `${kind} ${namespace ? `${namespace}/` : ''}${subject}`).sort(),
      ]).toEqual([name, wanted]);
    }
  });
  it('to the group of nodes have a reason', () => {
    const ofNodes = bindings.filter(({ subjects = [] }) => subjects.some(({ name }) => name === 'system:nodes')).map(key);
    expect(ofNodes.filter((name) => !(name in ownRoles) && !(name in ownBindings))).toEqual([]);
  });
  it('refer to the role of their name unless there is a reason', () => {
    const others = bindings.filter(({ metadata, roleRef }) => metadata?.name !== roleRef.name).map(key);
    const upstream = ['kube-system/system::extension-apiserver-authentication-reader'];
    expect(others.filter((name) => !(name in ownBindings)).sort()).toEqual(upstream);
  });
  it('allow nodes to write PersistentVolumes only if the composition provisions volumes on nodes', () => {
    const { clusterRoleBindings } = defaultObjects();
    expect(clusterRoleBindings.some(({ roleRef }) => roleRef.name === 'oarlock:node-volumes')).toBe(false);
  });
});
