import type { Fault } from '@oarlock/kernel/errors';
import type { Slot } from '@oarlock/kernel/plugin';
import { Admission } from '@oarlock/spi/admission';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Network } from '@oarlock/spi/network';
import { Runtime } from '@oarlock/spi/runtime';
import type { Plan } from './plan.ts';

/** A part of a composition that other parts need. The kernel does not require it, because its slot may be empty in other compositions. */
interface PartRule {
  /** `error`: the composition cannot work without the part. `warning`: a function is missing that a part outside of Oarlock may provide. */
  readonly severity: 'error' | 'warning';
  /** The key of `spec` that adds the part. */
  readonly key: string;
  isMissing(plan: Plan): boolean;
  readonly message: string;
  readonly remedy: string;
}

type SlotToken = Pick<Slot<unknown>, 'token'>;

const pluginsOf = ({ plugins }: Plan, { token }: SlotToken) =>
  plugins.flatMap(({ plugin }) => (plugin.provides.token === token ? [plugin] : []));

/** Returns true if the process runs pods. Pods of simulated runtimes exist only in the API. */
const runsPods = (plan: Plan): boolean => pluginsOf(plan, Runtime).some(({ declares }) => declares?.['simulated'] !== true);
const runsPodsWithoutNetwork = (plan: Plan): boolean =>
  pluginsOf(plan, Runtime).some(({ declares }) => declares?.['networkNamespaces'] === true) && plan.file.spec.network === undefined;
const hasPodNetwork = (plan: Plan): boolean => runsPods(plan) && pluginsOf(plan, Network)[0]?.declares?.['namespace'] === 'pod';

/** Returns true if a kubelet and the API server run here without a role that pods need. */
const runsKubeletWithout = ({ roles }: Plan, role: 'controllers' | 'scheduler'): boolean =>
  roles.includes('apiserver') && roles.includes('kubelet') && !roles.includes(role);

const includes = (plan: Plan, slot: SlotToken, id: string): boolean => pluginsOf(plan, slot).some((plugin) => plugin.id === id);

/** Returns true if an API server runs here and has no plugin in a slot besides the given ones. */
const hasOnly = (plan: Plan, slot: SlotToken, ids: readonly string[]): boolean =>
  plan.roles.includes('apiserver') && pluginsOf(plan, slot).every(({ id }) => ids.includes(id));

/** Authenticators that accept neither client certificates nor tokens of service accounts. */
const otherAuthenticators = [
  'authn-anonymous',
  'authn-basic-password',
  'authn-bootstrap-token',
  'authn-request-header',
  'authn-static-token',
];

const rules: readonly PartRule[] = [
  {
    severity: 'error',
    key: 'runtimes',
    isMissing: (plan) => plan.roles.includes('kubelet') && pluginsOf(plan, Runtime).length === 0,
    message: 'the role kubelet needs a runtime to run pods, and none is configured',
    remedy: 'configure one, such as `runtimes: [runtime-process]`, or remove kubelet from roles',
  },
  {
    severity: 'warning',
    key: 'network',
    isMissing: runsPodsWithoutNetwork,
    message: 'nothing connects the network namespaces of pods, so only pods with hostNetwork start',
    remedy: 'configure one, such as `network: network-bridge`, or with runtime-containerd install another CNI plugin on the node',
  },
  {
    severity: 'warning',
    key: 'proxy',
    isMissing: (plan) => runsPods(plan) && plan.file.spec.proxy === undefined,
    message: 'nothing routes the addresses of Services, so Services and their node ports cannot be reached',
    remedy:
      'configure one, such as `proxy: proxy-nftables` or, with network-host, `proxy: proxy-userspace`; or run another implementation of Services',
  },
  {
    severity: 'warning',
    key: 'proxy',
    isMissing: (plan) => runsPods(plan) && plan.file.spec.proxy === undefined && plan.file.spec.dns !== undefined,
    message: 'pods ask the DNS server at the address of its Service, which nothing routes, so names do not resolve in pods',
    remedy: 'configure a proxy, or remove dns',
  },
  {
    severity: 'warning',
    key: 'dns',
    isMissing: (plan) => hasPodNetwork(plan) && plan.file.spec.dns === undefined,
    message: 'pods ask the DNS server of the Service kube-system/kube-dns, which nothing serves, so names do not resolve in pods',
    remedy: 'set `dns: dns-server`, or run a DNS server as that Service with the tenth address of networking.serviceCIDRs',
  },
  {
    severity: 'warning',
    key: 'policy',
    isMissing: (plan) => hasPodNetwork(plan) && plan.file.spec.policy === undefined,
    message: 'NetworkPolicies are accepted and not enforced',
    remedy: 'set `policy: policy-nftables`, or run another implementation of NetworkPolicies',
  },
  {
    severity: 'warning',
    key: 'volumes',
    isMissing: (plan) => runsPods(plan) && plan.file.spec.volumes.length === 0,
    message: 'no StorageClass exists, so PersistentVolumeClaims stay Pending',
    remedy: 'set `volumes: [volume-csi]`, or install a CSI driver',
  },
  {
    severity: 'warning',
    key: 'roles',
    isMissing: (plan) => runsKubeletWithout(plan, 'controllers'),
    message: 'no controllers run here, so namespaces get no service accounts and their pods are rejected',
    remedy: 'add controllers, or run another process with `--roles controllers --kubeconfig FILE`',
  },
  {
    severity: 'warning',
    key: 'roles',
    isMissing: (plan) => runsKubeletWithout(plan, 'scheduler'),
    message: 'no scheduler runs here, so pods stay Pending',
    remedy: 'add scheduler, or run another process with `--roles scheduler --kubeconfig FILE`',
  },
  {
    severity: 'warning',
    key: 'authn',
    isMissing: (plan) => hasOnly(plan, Authn, [...otherAuthenticators, 'authn-service-account', 'authn-oidc', 'authn-webhook']),
    message: 'client certificates are not accepted, so the administrator of the generated kubeconfig and nodes that join are rejected',
    remedy: 'add authn-client-certificate',
  },
  {
    severity: 'warning',
    key: 'authn',
    isMissing: (plan) =>
      includes(plan, Admission, 'admission-service-account') && hasOnly(plan, Authn, [...otherAuthenticators, 'authn-client-certificate']),
    message: 'admission-service-account mounts tokens in pods that no authenticator accepts',
    remedy: 'add authn-service-account, or remove admission-service-account',
  },
  {
    severity: 'warning',
    key: 'authz',
    isMissing: (plan) => hasOnly(plan, Authz, ['authz-always-deny', 'authz-masters', 'authz-rbac']),
    message: 'users system:node:NAME may not read pods or write Nodes, so their nodes do not register',
    remedy: 'add authz-node before authz-rbac, or bind the ClusterRole system:node to the group system:nodes',
  },
  {
    severity: 'warning',
    key: 'admission',
    isMissing: (plan) => includes(plan, Authz, 'authz-node') && !includes(plan, Admission, 'admission-node-restriction'),
    message: 'authz-node permits each node to write the Nodes and the status of pods of all nodes',
    remedy: 'add admission-node-restriction',
  },
];

const missing = (plan: Plan, severity: PartRule['severity']): readonly PartRule[] =>
  rules.filter((rule) => rule.severity === severity && rule.isMissing(plan));

/** Returns a fault for each missing part without which the composition cannot work. */
export const missingPartFaults = (plan: Plan): readonly Fault[] =>
  missing(plan, 'error').map(({ key, message, remedy }): Fault => {
    const at = plan.file.locate(['spec', key]);
    return { code: 'SlotEmpty', message, path: `spec.${key}`, ...(at && { at }), remedy };
  });

/** Returns a warning, with the remedy, for each missing part without which the composition works only in part. */
export const missingPartWarnings = (plan: Plan): readonly string[] =>
  missing(plan, 'warning').map(({ key, message, remedy }) => `spec.${key}: ${message}: ${remedy}`);
