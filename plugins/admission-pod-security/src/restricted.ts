import type { Container, EphemeralContainer } from '@oarlock/api/types/core-v1';
import { seccompViolation, type Rule } from './baseline.ts';
import { containersNamed, plural, quoted } from './pod-view.ts';

type Any = Container | EphemeralContainer;
const volumeKinds: ReadonlySet<string> = new Set([
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

const allowPrivilegeEscalation: Rule = ({ containers, windows }, minor) => {
  if (windows && minor >= 25) return undefined;
  const wrong = containers.filter(({ securityContext }) => securityContext?.allowPrivilegeEscalation !== false);
  return wrong.length === 0
    ? undefined
    : {
        reason: 'allowPrivilegeEscalation != false',
        detail: `${containersNamed(wrong)} must set securityContext.allowPrivilegeEscalation=false`,
      };
};

const capabilities: Rule = ({ containers, windows }, minor) => {
  if (windows && minor >= 25) return undefined;
  const added = ({ securityContext }: Any) => (securityContext?.capabilities?.add ?? []).filter((each) => each !== 'NET_BIND_SERVICE');
  const keeping = containers.filter(({ securityContext }) => securityContext?.capabilities?.drop?.includes('ALL') !== true);
  const adding = containers.filter((each) => added(each).length > 0);
  const details = [
    ...(keeping.length > 0 ? [`${containersNamed(keeping)} must set securityContext.capabilities.drop=["ALL"]`] : []),
    ...(adding.length > 0
      ? [
          `${containersNamed(adding)} must not include ${quoted([...new Set(adding.flatMap(added))].sort())} in securityContext.capabilities.add`,
        ]
      : []),
  ];
  return details.length === 0 ? undefined : { reason: 'unrestricted capabilities', detail: details.join('; ') };
};

const volumes: Rule = ({ spec }) => {
  const wrong = (spec.volumes ?? []).flatMap((volume) => {
    const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'unknown';
    return volumeKinds.has(kind) ? [] : [{ name: volume.name, kind }];
  });
  if (wrong.length === 0) return undefined;
  const kinds = [...new Set(wrong.map(({ kind }) => kind))].sort();
  return {
    reason: 'restricted volume types',
    detail: `${plural('volume', wrong.length)} ${quoted(wrong.map(({ name }) => name))} ${wrong.length === 1 ? 'uses' : 'use'} restricted volume ${plural('type', kinds.length)} ${quoted(kinds)}`,
  };
};

const runAsNonRoot: Rule = ({ spec, containers, hasUserNamespace: ownUsers }, minor) => {
  if (ownUsers && minor >= 35) return undefined;
  const own = spec.securityContext?.runAsNonRoot;
  const explicit = containers.filter(({ securityContext }) => securityContext?.runAsNonRoot === false);
  const implicit = own === true ? [] : containers.filter(({ securityContext }) => securityContext?.runAsNonRoot === undefined);
  const reason = 'runAsNonRoot != true';
  if (own === false || explicit.length > 0) {
    const who = [...(own === false ? ['pod'] : []), ...(explicit.length > 0 ? [containersNamed(explicit)] : [])].join(' and ');
    // a container with an explicit value does not change the error about the pod
    if (explicit.length > 0 || implicit.length > 0) return { reason, detail: `${who} must not set securityContext.runAsNonRoot=false` };
  }
  return implicit.length === 0
    ? undefined
    : { reason, detail: `pod or ${containersNamed(implicit)} must set securityContext.runAsNonRoot=true` };
};

const runAsUser: Rule = ({ spec, containers, hasUserNamespace: ownUsers }, minor) => {
  if (ownUsers && minor >= 35) return undefined;
  const own = spec.securityContext?.runAsUser === 0;
  const wrong = containers.filter(({ securityContext }) => securityContext?.runAsUser === 0);
  return own || wrong.length > 0
    ? {
        reason: 'runAsUser=0',
        detail: `${[...(own ? ['pod'] : []), ...(wrong.length > 0 ? [containersNamed(wrong)] : [])].join(' and ')} must not set runAsUser=0`,
      }
    : undefined;
};

const seccomp: Rule = (pod, minor) => {
  if (pod.windows && minor >= 25) return undefined;
  const { detail } = seccompViolation(pod);
  const own = pod.spec.securityContext?.seccompProfile?.type;
  const missing =
    own === undefined ? pod.containers.filter(({ securityContext }) => securityContext?.seccompProfile?.type === undefined) : [];
  const details = [
    ...detail,
    ...(missing.length > 0
      ? [`pod or ${containersNamed(missing)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`]
      : []),
  ];
  return details.length === 0 ? undefined : { reason: 'seccompProfile', detail: details.join(', ') };
};

/** The checks that the level `restricted` adds to `baseline`, ordered by their upstream names. */
export const restricted: readonly {
  readonly rule: Rule;
  readonly since: number;
  readonly replaces?: 'capabilities' | 'volumes' | 'seccomp';
}[] = [
  { rule: allowPrivilegeEscalation, since: 8 },
  { rule: capabilities, since: 22, replaces: 'capabilities' },
  { rule: volumes, since: 0, replaces: 'volumes' },
  { rule: runAsNonRoot, since: 0 },
  { rule: runAsUser, since: 23 },
  { rule: seccomp, since: 19, replaces: 'seccomp' },
];
