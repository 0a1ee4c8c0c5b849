import type { KubeObject } from '@oarlock/api/object';
import { formatTime } from '@oarlock/api/values/time';
import type {
  Event,
  Node,
  NodeStatus,
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
import { sourceAddressAnnotation } from '@oarlock/spi/cluster';
import { fieldOf, specOf, statusOf, withFields, type Strategy } from '../strategy.ts';

const text =
  <T>(read: (object: T) => string | undefined) =>
  (object: KubeObject) =>
    read(object as T) ?? '';

/** Returns a Node without the fields of the removed dynamic kubelet configuration, unless the stored Node has them. */
function withoutDynamicConfiguration(object: KubeObject, old?: KubeObject): KubeObject {
  const { spec } = object as Node;
  if (spec?.configSource === undefined || (old as Node | undefined)?.spec?.configSource !== undefined) return object;
  const { configSource: _removed, ...rest } = spec;
  return withFields(object, { spec: rest });
}

/** The strategy of Nodes, which keeps the status that the kubelet sends on create. */
export const nodes: Strategy = {
  fields: { 'spec.unschedulable': (object) => String((object as Node).spec?.unschedulable ?? false) },
  keepsStatusOnCreate: true,
  prepareForCreate: (object) => withoutDynamicConfiguration(object),
  prepareForUpdate: withoutDynamicConfiguration,
  subresources: {
    status: {
      prepareForUpdate(object, old) {
        const { config, ...status } = statusOf<NodeStatus>(object);
        const isDropped = config !== undefined && statusOf<NodeStatus>(old).config === undefined;
        return withFields(object, { spec: fieldOf(old, 'spec'), ...(isDropped && { status }) });
      },
    },
  },
};

/** Returns a Secret with the write-only `stringData` moved to `data`. */
function withoutStringData(object: KubeObject): KubeObject {
  const { stringData, data } = object as Secret;
  if (stringData === undefined) return object;
  const encoded = Object.fromEntries(Object.entries(stringData).map(([key, value]) => [key, Buffer.from(value).toString('base64')]));
  return withFields(object, { data: { ...data, ...encoded }, stringData: undefined });
}

export const secrets: Strategy = {
  fields: { type: text<Secret>(({ type }) => type) },
  prepareForCreate: withoutStringData,
  prepareForUpdate: withoutStringData,
};

/** Returns a ServiceAccount whose references to Secrets contain only the name. */
function cleaned(object: KubeObject): KubeObject {
  const { secrets } = object as ServiceAccount;
  return secrets === undefined
    ? object
    : withFields(object, { secrets: secrets.map(({ name }) => ({ ...(name !== undefined && { name }) })) });
}
export const serviceAccounts: Strategy = { returnsDeletedObject: true, prepareForCreate: cleaned, prepareForUpdate: cleaned };

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
  allowCreateOnUpdate: true,
  defaultGarbageCollectionPolicy: 'unsupported',
  ttlSeconds: 3600,
};

const claimSpec = (object: KubeObject) => specOf<PersistentVolumeClaimSpec>(object);
const core = new Set([undefined, '']);

/**
 * Returns a PersistentVolumeClaim without a dataSourceRef into another namespace, which needs the alpha feature CrossNamespaceVolumeDataSource, unless
 * the stored claim has a reference.
 */
function withoutForeignSource(object: KubeObject, old?: KubeObject): KubeObject {
  const { dataSourceRef, ...spec } = claimSpec(object);
  if (!dataSourceRef?.namespace || (old !== undefined && claimSpec(old).dataSourceRef !== undefined)) return object;
  return withFields(object, { spec });
}

/** Returns a PersistentVolumeClaim with dataSource and dataSourceRef set to the same object, as far as dataSource can express the reference. */
function hasSameSource(object: KubeObject): KubeObject {
  const { dataSource, dataSourceRef } = claimSpec(object);
  if (dataSource !== undefined && dataSourceRef === undefined)
    return withFields(object, { spec: { ...claimSpec(object), dataSourceRef: dataSource } });
  if (dataSource !== undefined || dataSourceRef === undefined || (dataSourceRef.namespace ?? '') !== '') return object;
  const { apiGroup, kind, name } = dataSourceRef;
  const known =
    (core.has(apiGroup) && kind === 'PersistentVolumeClaim') || (apiGroup === 'snapshot.storage.k8s.io' && kind === 'VolumeSnapshot');
  return known
    ? withFields(object, { spec: { ...claimSpec(object), dataSource: { ...(apiGroup !== undefined && { apiGroup }), kind, name } } })
    : object;
}

export const persistentVolumeClaims: Strategy = {
  returnsDeletedObject: true,
  prepareForCreate: (object) => hasSameSource(withoutForeignSource(withFields(object, { status: { phase: 'Pending' } }))),
  prepareForUpdate: (object, old) => hasSameSource(withoutForeignSource(object, old)),
};

const volumeStatus = (object: KubeObject) => statusOf<PersistentVolumeStatus>(object);
export const persistentVolumes: Strategy = {
  returnsDeletedObject: true,
  fields: { name: ({ metadata }) => metadata?.name ?? '' },
  prepareForCreate: (object, { now }) => withFields(object, { status: { phase: 'Pending', lastPhaseTransitionTime: formatTime(now) } }),
  subresources: {
    status: {
      prepareForUpdate(object, old, { now }) {
        const [next, before] = [volumeStatus(object), volumeStatus(old)];
        const at =
          next.phase === before.phase
            ? (next.lastPhaseTransitionTime ?? before.lastPhaseTransitionTime)
            : next.lastPhaseTransitionTime === undefined || next.lastPhaseTransitionTime === before.lastPhaseTransitionTime
              ? formatTime(now)
              : next.lastPhaseTransitionTime;
        return withFields(object, {
          spec: specOf<PersistentVolumeSpec>(old),
          status: { ...next, ...(at !== undefined && { lastPhaseTransitionTime: at }) },
        });
      },
    },
  },
};

const csrSpec = (object: KubeObject) => specOf<CertificateSigningRequestSpec>(object);
const csrStatus = (object: KubeObject) => statusOf<CertificateSigningRequestStatus>(object);
const approvalConditionTypes = ['Approved', 'Denied'];
/**
 * Returns a CertificateSigningRequest with the source address annotation, on which the approval of serving certificates relies. Clients cannot set
 * or change the annotation.
 */
function withSourceAddress(object: KubeObject, source: string | undefined): KubeObject {
  if (object.metadata?.annotations?.[sourceAddressAnnotation] === source) return object;
  const { [sourceAddressAnnotation]: _clientValue, ...annotations } = object.metadata?.annotations ?? {};
  return {
    ...object,
    metadata: { ...object.metadata, annotations: { ...annotations, ...(source && { [sourceAddressAnnotation]: source }) } },
  };
}

export const certificateSigningRequests: Strategy = {
  fields: { 'spec.signerName': text<CertificateSigningRequest>(({ spec }) => spec.signerName) },
  // the server sets the identity of the requester
  prepareForCreate(object, { identity, sourceAddress }) {
    const { username: _name, uid: _uid, groups: _groups, extra: _extra, ...clientSpec } = csrSpec(object);
    const source = clientSpec.signerName === 'kubernetes.io/kubelet-serving' ? sourceAddress : undefined;
    return withFields(withSourceAddress(object, source), {
      spec: {
        ...clientSpec,
        username: identity.name,
        ...(identity.uid !== undefined && { uid: identity.uid }),
        groups: [...identity.groups],
        ...(identity.extra !== undefined && Object.keys(identity.extra).length > 0 && { extra: structuredClone(identity.extra) }),
      },
      status: undefined,
    });
  },
  prepareForUpdate: (object, old) =>
    withFields(withSourceAddress(object, old.metadata?.annotations?.[sourceAddressAnnotation]), {
      spec: fieldOf(old, 'spec'),
      status: fieldOf(old, 'status'),
    }),
  subresources: {
    status: {
      prepareForUpdate: (object, old, { now }) =>
        withConditionTimes(withFields(withApprovalOf(object, old), { spec: fieldOf(old, 'spec') }), old, now),
    },
    approval: {
      prepareForUpdate: (object, old, { now }) => {
        const { certificate: _mine, ...next } = csrStatus(object);
        const { certificate } = csrStatus(old);
        return withConditionTimes(
          withFields(object, { spec: fieldOf(old, 'spec'), status: { ...next, ...(certificate !== undefined && { certificate }) } }),
          old,
          now,
        );
      },
    },
  },
};

/**
 * Returns the object with the Approved and Denied conditions of `old`. Where their number differs, the conditions stay: validation rejects the
 * update.
 */
function withApprovalOf(object: KubeObject, old: KubeObject): KubeObject {
  let conditions = csrStatus(object).conditions ?? [];
  for (const approval of approvalConditionTypes) {
    const before = (csrStatus(old).conditions ?? []).filter(({ type }) => type === approval);
    if (before.length !== conditions.filter(({ type }) => type === approval).length) continue;
    const kept = before.values();
    conditions = conditions.map((condition) => (condition.type === approval ? (kept.next().value ?? condition) : condition));
  }
  return csrStatus(object).conditions === undefined ? object : withFields(object, { status: { ...csrStatus(object), conditions } });
}

/** Returns the object with the missing timestamps of its conditions set. */
function withConditionTimes(object: KubeObject, old: KubeObject, now: number): KubeObject {
  const at = formatTime(now);
  const before = csrStatus(old).conditions ?? [];
  const transitionTime = ({ type, status }: { readonly type: string; readonly status: string }) =>
    before.find((condition) => condition.type === type && condition.status === status && condition.lastTransitionTime)?.lastTransitionTime;
  const conditions = csrStatus(object).conditions?.map((condition) => ({
    ...condition,
    lastUpdateTime: condition.lastUpdateTime ?? at,
    lastTransitionTime: condition.lastTransitionTime ?? transitionTime(condition) ?? at,
  }));
  return conditions === undefined ? object : withFields(object, { status: { ...csrStatus(object), conditions } });
}
