import type { KubeObject } from '@oarlock/api/object';
import { formatTime } from '@oarlock/api/time';
import type {
  Event,
  Node,
  PersistentVolumeSpec,
  PersistentVolumeStatus,
  PersistentVolumeClaimSpec,
  Secret,
  ServiceAccount,
} from '@oarlock/api/types/core-v1';
import type {
  CertificateSigningRequest,
  CertificateSigningRequestSpec,
  CertificateSigningRequestStatus,
} from '@oarlock/api/types/certificates-v1';
import { jsonEqual } from '@oarlock/api/json';
import { part, specOf, statusOf, withParts, type Strategy } from './strategy.ts';

const text =
  <T>(read: (object: T) => string | undefined) =>
  (object: KubeObject) =>
    read(object as T) ?? '';

/** Nodes register with their status. */
export const nodes: Strategy = {
  fields: { 'spec.unschedulable': (object) => String((object as Node).spec?.unschedulable ?? false) },
  keepsStatus: true,
};

/** `stringData` is only for writing: it becomes `data`. */
function withoutStringData(object: KubeObject): KubeObject {
  const { stringData, data } = object as Secret;
  if (stringData === undefined) return object;
  const encoded = Object.fromEntries(Object.entries(stringData).map(([key, value]) => [key, Buffer.from(value).toString('base64')]));
  return withParts(object, { data: { ...data, ...encoded }, stringData: undefined });
}

export const secrets: Strategy = {
  fields: { type: text<Secret>(({ type }) => type) },
  create: withoutStringData,
  update: withoutStringData,
};

/** Secrets are referred to by name alone. */
function cleaned(object: KubeObject): KubeObject {
  const { secrets } = object as ServiceAccount;
  return secrets === undefined
    ? object
    : withParts(object, { secrets: secrets.map(({ name }) => ({ ...(name !== undefined && { name }) })) });
}
export const serviceAccounts: Strategy = { returnsDeleted: true, create: cleaned, update: cleaned };

export const events: Strategy = {
  fields: {
    'involvedObject.kind': text<Event>(({ involvedObject }) => involvedObject?.kind),
    'involvedObject.namespace': text<Event>(({ involvedObject }) => involvedObject?.namespace),
    'involvedObject.name': text<Event>(({ involvedObject }) => involvedObject?.name),
    'involvedObject.uid': text<Event>(({ involvedObject }) => involvedObject?.uid),
    'involvedObject.apiVersion': text<Event>(({ involvedObject }) => involvedObject?.apiVersion),
    'involvedObject.resourceVersion': text<Event>(({ involvedObject }) => involvedObject?.resourceVersion),
    'involvedObject.fieldPath': text<Event>(({ involvedObject }) => involvedObject?.fieldPath),
    reason: text<Event>(({ reason }) => reason),
    reportingComponent: text<Event>(({ reportingComponent }) => reportingComponent),
    source: text<Event>(({ source, reportingComponent }) => source?.component || reportingComponent),
    type: text<Event>(({ type }) => type),
  },
  createOnUpdate: true,
  dependents: 'unsupported',
  ttlSeconds: 3600,
};

const claimSpec = (object: KubeObject) => specOf<PersistentVolumeClaimSpec>(object);
const core = new Set([undefined, '']);

/** The old and the new way to name where data comes from say the same, where the old one can say it. */
function sameSources(object: KubeObject): KubeObject {
  const { dataSource, dataSourceRef } = claimSpec(object);
  if (dataSource !== undefined && dataSourceRef === undefined)
    return withParts(object, { spec: { ...claimSpec(object), dataSourceRef: dataSource } });
  if (dataSource !== undefined || dataSourceRef === undefined || (dataSourceRef.namespace ?? '') !== '') return object;
  const { apiGroup, kind, name } = dataSourceRef;
  const known =
    (core.has(apiGroup) && kind === 'PersistentVolumeClaim') || (apiGroup === 'snapshot.storage.k8s.io' && kind === 'VolumeSnapshot');
  return known
    ? withParts(object, { spec: { ...claimSpec(object), dataSource: { ...(apiGroup !== undefined && { apiGroup }), kind, name } } })
    : object;
}

export const persistentVolumeClaims: Strategy = {
  returnsDeleted: true,
  create: (object) => sameSources(withParts(object, { status: { phase: 'Pending' } })),
  update: sameSources,
};

const volumeStatus = (object: KubeObject) => statusOf<PersistentVolumeStatus>(object);
export const persistentVolumes: Strategy = {
  returnsDeleted: true,
  fields: { name: ({ metadata }) => metadata?.name ?? '' },
  create: (object, { now }) => withParts(object, { status: { phase: 'Pending', lastPhaseTransitionTime: formatTime(now) } }),
  subresources: {
    status: {
      prepare(object, old, { now }) {
        const [next, before] = [volumeStatus(object), volumeStatus(old)];
        const at =
          next.phase === before.phase
            ? (next.lastPhaseTransitionTime ?? before.lastPhaseTransitionTime)
            : next.lastPhaseTransitionTime === undefined || next.lastPhaseTransitionTime === before.lastPhaseTransitionTime
              ? formatTime(now)
              : next.lastPhaseTransitionTime;
        return withParts(object, {
          spec: specOf<PersistentVolumeSpec>(old),
          status: { ...next, ...(at !== undefined && { lastPhaseTransitionTime: at }) },
        });
      },
    },
  },
};

const csrSpec = (object: KubeObject) => specOf<CertificateSigningRequestSpec>(object);
const csrStatus = (object: KubeObject) => statusOf<CertificateSigningRequestStatus>(object);
const decided = new Set(['Approved', 'Denied']);

export const certificateSigningRequests: Strategy = {
  fields: { 'spec.signerName': text<CertificateSigningRequest>(({ spec }) => spec.signerName) },
  // who asks is written down by the server
  create(object, { identity }) {
    const { username: _name, uid: _uid, groups: _groups, extra: _extra, ...given } = csrSpec(object);
    return withParts(object, {
      spec: {
        ...given,
        username: identity.name,
        ...(identity.uid !== undefined && { uid: identity.uid }),
        groups: [...identity.groups],
        ...(identity.extra !== undefined && Object.keys(identity.extra).length > 0 && { extra: structuredClone(identity.extra) }),
      },
      status: undefined,
    });
  },
  update: (object, old) => withParts(object, { spec: part(old, 'spec'), status: part(old, 'status') }),
  subresources: {
    status: {
      prepare(object, old, { now }) {
        const next = csrStatus(object);
        const approvals = (csrStatus(old).conditions ?? []).filter(({ type }) => decided.has(type));
        const others = (next.conditions ?? []).filter(({ type }) => !decided.has(type));
        return stamped(
          withParts(object, { spec: part(old, 'spec'), status: { ...next, conditions: [...approvals, ...others] } }),
          old,
          now,
        );
      },
    },
    approval: {
      prepare: (object, old, { now }) => {
        const { certificate: _mine, ...next } = csrStatus(object);
        const { certificate } = csrStatus(old);
        return stamped(
          withParts(object, { spec: part(old, 'spec'), status: { ...next, ...(certificate !== undefined && { certificate }) } }),
          old,
          now,
        );
      },
    },
  },
};

/** Conditions get their times from the server. */
function stamped(object: KubeObject, old: KubeObject, now: number): KubeObject {
  const at = formatTime(now);
  const before = csrStatus(old).conditions ?? [];
  const conditions = csrStatus(object).conditions?.map((condition) => {
    const same = before.find(({ type }) => type === condition.type);
    const changed = !jsonEqual(
      { ...same, lastUpdateTime: undefined, lastTransitionTime: undefined },
      { ...condition, lastUpdateTime: undefined, lastTransitionTime: undefined },
    );
    return {
      ...condition,
      lastUpdateTime: condition.lastUpdateTime ?? (changed ? at : (same?.lastUpdateTime ?? at)),
      lastTransitionTime: condition.lastTransitionTime ?? (same?.status === condition.status ? (same.lastTransitionTime ?? at) : at),
    };
  });
  return conditions === undefined ? object : withParts(object, { status: { ...csrStatus(object), conditions } });
}
