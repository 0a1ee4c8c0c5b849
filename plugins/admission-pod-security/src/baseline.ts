import type { Container, EphemeralContainer } from '@oarlock/api/types/core-v1';
import { containersNamed, plural, quoted, type PodView, type Violation } from './pod-view.ts';

/** A check of the Pod Security Standards. Returns undefined if the pod passes. `minor` is the minor Kubernetes version of the policy. */
export type Rule = (pod: PodView, minor: number) => Violation | undefined;
type Any = Container | EphemeralContainer;

const apparmor = 'container.apparmor.security.beta.kubernetes.io/';
const capabilities: ReadonlySet<string> = new Set([
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'MKNOD',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
]);
const sysctls: readonly (readonly [since: number, names: readonly string[]])[] = [
  [
    0,
    [
      'kernel.shm_rmid_forced',
      'net.ipv4.ip_local_port_range',
      'net.ipv4.tcp_syncookies',
      'net.ipv4.ping_group_range',
      'net.ipv4.ip_unprivileged_port_start',
    ],
  ],
  [27, ['net.ipv4.ip_local_reserved_ports']],
  [29, ['net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes']],
  [32, ['net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem']],
];
const unique = (list: readonly string[]): string[] => [...new Set(list)].sort();
/** Returns the subject of a violation message: `pod and containers "a", "b"`. */
const subjects = (pod: boolean, containers: readonly Any[]): string =>
  [...(pod ? ['pod'] : []), ...(containers.length > 0 ? [containersNamed(containers)] : [])].join(' and ');

const appArmorProfile: Rule = ({ annotations, spec, containers }) => {
  const bad = (type: string | undefined) => type !== undefined && type !== 'RuntimeDefault' && type !== 'Localhost';
  const own = spec.securityContext?.appArmorProfile?.type;
  const wrong = containers.filter(({ securityContext }) => bad(securityContext?.appArmorProfile?.type));
  const marked = Object.entries(annotations)
    .filter(([key, value]) => key.startsWith(apparmor) && value !== '' && value !== 'runtime/default' && !value.startsWith('localhost/'))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .sort();
  const types = unique([
    ...(bad(own) ? [own ?? ''] : []),
    ...wrong.map(({ securityContext }) => securityContext?.appArmorProfile?.type ?? ''),
  ]);
  const details = [
    ...(marked.length > 0 ? [`${plural('annotation', marked.length)} ${marked.join(', ')}`] : []),
    ...(types.length > 0 ? [`${subjects(bad(own), wrong)} must not set AppArmor profile type to ${quoted(types)}`] : []),
  ];
  return details.length === 0
    ? undefined
    : { reason: plural('forbidden AppArmor profile', marked.length + types.length), detail: details.join(', ') };
};

const defaultCapabilities: Rule = ({ containers }) => {
  const added = ({ securityContext }: Any) => (securityContext?.capabilities?.add ?? []).filter((each) => !capabilities.has(each));
  const wrong = containers.filter((each) => added(each).length > 0);
  return wrong.length === 0
    ? undefined
    : {
        reason: 'non-default capabilities',
        detail: `${containersNamed(wrong)} must not include ${quoted(unique(wrong.flatMap(added)))} in securityContext.capabilities.add`,
      };
};

const hostNamespaces: Rule = ({ spec }) => {
  const set = [
    ...(spec.hostNetwork === true ? ['hostNetwork=true'] : []),
    ...(spec.hostPID === true ? ['hostPID=true'] : []),
    ...(spec.hostIPC === true ? ['hostIPC=true'] : []),
  ];
  return set.length === 0 ? undefined : { reason: 'host namespaces', detail: set.join(', ') };
};

const hostPathVolumes: Rule = ({ spec }) => {
  const wrong = (spec.volumes ?? []).filter(({ hostPath }) => hostPath !== undefined).map(({ name }) => name);
  return wrong.length === 0 ? undefined : { reason: 'hostPath volumes', detail: `${plural('volume', wrong.length)} ${quoted(wrong)}` };
};

const hostPorts: Rule = ({ containers }) => {
  const portsOf = ({ ports }: Any) => (ports ?? []).flatMap(({ hostPort }) => (hostPort === undefined || hostPort === 0 ? [] : [hostPort]));
  const wrong = containers.filter((each) => portsOf(each).length > 0);
  if (wrong.length === 0) return undefined;
  const ports = unique(wrong.flatMap(portsOf).map(String));
  return {
    reason: 'hostPort',
    detail: `${containersNamed(wrong)} ${wrong.length === 1 ? 'uses' : 'use'} ${plural('hostPort', ports.length)} ${ports.join(', ')}`,
  };
};

const hostProbes: Rule = ({ containers }) => {
  const hostsOf = ({ livenessProbe, readinessProbe, startupProbe, lifecycle }: Any) =>
    [livenessProbe, readinessProbe, startupProbe, lifecycle?.postStart, lifecycle?.preStop].flatMap((handler) =>
      [handler?.httpGet?.host, handler?.tcpSocket?.host].filter(
        (host) => host !== undefined && host !== '' && host !== '127.0.0.1' && host !== '::1',
      ),
    ) as string[];
  const wrong = containers.filter((each) => hostsOf(each).length > 0);
  if (wrong.length === 0) return undefined;
  const hosts = unique(wrong.flatMap(hostsOf));
  return {
    reason: 'probe or lifecycle host',
    detail: `${containersNamed(wrong)} ${wrong.length === 1 ? 'uses' : 'use'} probe or lifecycle ${plural('host', hosts.length)} ${quoted(hosts)}`,
  };
};

const privileged: Rule = ({ containers }) => {
  const wrong = containers.filter(({ securityContext }) => securityContext?.privileged === true);
  return wrong.length === 0
    ? undefined
    : { reason: 'privileged', detail: `${containersNamed(wrong)} must not set securityContext.privileged=true` };
};

const procMount: Rule = ({ containers, hasUserNamespace: ownUsers }, minor) => {
  if (ownUsers && minor >= 35) return undefined;
  const typeOf = ({ securityContext }: Any) => securityContext?.procMount ?? 'Default';
  const wrong = containers.filter((each) => typeOf(each) !== 'Default');
  return wrong.length === 0
    ? undefined
    : {
        reason: 'procMount',
        detail: `${containersNamed(wrong)} must not set securityContext.procMount to ${quoted(unique(wrong.map(typeOf)))}`,
      };
};

const seLinuxOptions: Rule = ({ spec, containers }, minor) => {
  const types = new Set(['', 'container_t', 'container_init_t', 'container_kvm_t', ...(minor >= 31 ? ['container_engine_t'] : [])]);
  type Options = { readonly type?: string; readonly user?: string; readonly role?: string } | undefined;
  const bad = (options: Options) => !types.has(options?.type ?? '') || (options?.user ?? '') !== '' || (options?.role ?? '') !== '';
  const own = spec.securityContext?.seLinuxOptions;
  const wrong = containers.filter(({ securityContext }) => bad(securityContext?.seLinuxOptions));
  const all: Options[] = [...(bad(own) ? [own] : []), ...wrong.map(({ securityContext }) => securityContext?.seLinuxOptions)];
  if (all.length === 0) return undefined;
  const badTypes = unique(all.map((options) => options?.type ?? '').filter((type) => !types.has(type)));
  const details = [
    ...(badTypes.length > 0 ? [`${plural('type', badTypes.length)} ${quoted(badTypes)}`] : []),
    ...(all.some((options) => (options?.user ?? '') !== '') ? ['user may not be set'] : []),
    ...(all.some((options) => (options?.role ?? '') !== '') ? ['role may not be set'] : []),
  ];
  return {
    reason: 'seLinuxOptions',
    detail: `${subjects(bad(own), wrong)} set forbidden securityContext.seLinuxOptions: ${details.join('; ')}`,
  };
};

/** Returns the forbidden seccomp profile types of the pod and its containers as a violation; undefined if there are none. */
export function seccompViolation({ spec, containers }: PodView): {
  readonly pod: string | undefined;
  readonly containers: readonly Any[];
  readonly detail: string[];
} {
  const bad = (type: string | undefined) => type !== undefined && type !== 'RuntimeDefault' && type !== 'Localhost';
  const own = spec.securityContext?.seccompProfile?.type;
  const wrong = containers.filter(({ securityContext }) => bad(securityContext?.seccompProfile?.type));
  const types = unique([
    ...(bad(own) ? [own ?? ''] : []),
    ...wrong.map(({ securityContext }) => securityContext?.seccompProfile?.type ?? ''),
  ]);
  return {
    pod: bad(own) ? own : undefined,
    containers: wrong,
    detail: types.length === 0 ? [] : [`${subjects(bad(own), wrong)} must not set securityContext.seccompProfile.type to ${quoted(types)}`],
  };
}

const seccompAnnotations: Rule = ({ annotations }) => {
  const wrong = Object.entries(annotations)
    .filter(
      ([key, value]) =>
        (key === 'seccomp.security.alpha.kubernetes.io/pod' || key.startsWith('container.seccomp.security.alpha.kubernetes.io/')) &&
        value !== 'runtime/default' &&
        value !== 'docker/default' &&
        !value.startsWith('localhost/'),
    )
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .sort();
  return wrong.length === 0
    ? undefined
    : { reason: 'seccompProfile', detail: `forbidden ${plural('annotation', wrong.length)} ${wrong.join(', ')}` };
};
const seccompProfile: Rule = (pod, minor) => {
  if (minor < 19) return seccompAnnotations(pod, minor);
  const { detail } = seccompViolation(pod);
  return detail.length === 0 ? undefined : { reason: 'seccompProfile', detail: detail.join(', ') };
};

const safeSysctls: Rule = ({ spec }, minor) => {
  const allowed = new Set(sysctls.flatMap(([since, names]) => (minor >= since ? names : [])));
  const wrong = (spec.securityContext?.sysctls ?? []).map(({ name }) => name).filter((name) => !allowed.has(name));
  return wrong.length === 0 ? undefined : { reason: 'forbidden sysctls', detail: wrong.join(', ') };
};

const hostProcess: Rule = ({ spec, containers }) => {
  const own = spec.securityContext?.windowsOptions?.hostProcess === true;
  const wrong = containers.filter(({ securityContext }) => securityContext?.windowsOptions?.hostProcess === true);
  return own || wrong.length > 0
    ? { reason: 'hostProcess', detail: `${subjects(own, wrong)} must not set securityContext.windowsOptions.hostProcess=true` }
    : undefined;
};

/** The checks of the level `baseline`, ordered by their upstream names. `replaced` is the name of a check that a `restricted` check overrides. */
export const baseline: readonly {
  readonly rule: Rule;
  readonly since: number;
  readonly replaced?: 'capabilities' | 'volumes' | 'seccomp';
}[] = [
  { rule: appArmorProfile, since: 0 },
  { rule: defaultCapabilities, since: 0, replaced: 'capabilities' },
  { rule: hostNamespaces, since: 0 },
  { rule: hostPathVolumes, since: 0, replaced: 'volumes' },
  { rule: hostPorts, since: 0 },
  { rule: hostProbes, since: 34 },
  { rule: privileged, since: 0 },
  { rule: procMount, since: 0 },
  { rule: seLinuxOptions, since: 0 },
  { rule: seccompProfile, since: 0, replaced: 'seccomp' },
  { rule: safeSysctls, since: 0 },
  { rule: hostProcess, since: 0 },
];
