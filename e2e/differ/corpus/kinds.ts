import { kinds, type Kind } from '@oarlock/api/kinds';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { samples } from '../../../packages/apiserver/test/support/sample-objects.ts';
import type { Fields } from '../request.ts';

/** A served resource with what is needed to write requests to it. */
export interface CorpusKind {
  /** `pods`, `deployments.apps`, or with its version `horizontalpodautoscalers.v1.autoscaling` if it is not the preferred one. */
  readonly id: string;
  readonly kind: Kind;
  readonly apiVersion: string;
  readonly schema: Schema;
  /** The fields of a minimal valid object, without type and metadata. */
  readonly object: Fields;
  readonly status: Fields | undefined;
  /** True for a custom resource: it has neither protobuf nor strategic merge patches. */
  readonly isCustom: boolean;
  /** A merge patch that the API server accepts. */
  readonly change: Fields | undefined;
}

const nothing = [{ apiGroups: ['differ.example.com'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['nothings'] }];
const webhooks = (object: Fields): Fields => ({
  ...object,
  webhooks: (object['webhooks'] as Fields[]).map((webhook) => ({ ...webhook, rules: nothing })),
});
const policy = (object: Fields): Fields => ({
  ...object,
  spec: { ...(object['spec'] as Fields), matchConstraints: { resourceRules: nothing } },
});
/** Objects that would affect other requests of a run, or that a component of a reference cluster would act on. */
const harmless: Readonly<Record<string, (object: Fields) => Fields>> = {
  pods: (object) => ({ ...object, spec: { ...(object['spec'] as Fields), schedulerName: 'differ' } }),
  events: (object) => ({ ...object, involvedObject: { namespace: '%{namespace}', name: 'x', kind: 'Pod' } }),
  limitranges: () => ({ spec: { limits: [{ type: 'example.com/differ', max: { cpu: '1' } }] } }),
  persistentvolumeclaims: (object) => ({ ...object, spec: { ...(object['spec'] as Fields), storageClassName: '' } }),
  'mutatingwebhookconfigurations.admissionregistration.k8s.io': webhooks,
  'validatingwebhookconfigurations.admissionregistration.k8s.io': webhooks,
  'mutatingadmissionpolicies.admissionregistration.k8s.io': policy,
  'validatingadmissionpolicies.admissionregistration.k8s.io': policy,
};

const eventV1: Fields = {
  regarding: { namespace: '%{namespace}', name: 'x', kind: 'Pod' },
  eventTime: '2026-01-01T00:00:00.000000Z',
  reportingController: 'example.com/c',
  reportingInstance: 'i',
  action: 'A',
  reason: 'R',
  note: 'm',
  type: 'Normal',
};
const definition: Fields = {
  spec: {
    group: 'differ.example.com',
    scope: 'Namespaced',
    names: { plural: 'things', singular: 'thing', kind: 'Thing', listKind: 'ThingList' },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  },
};
const more: Readonly<Record<string, Fields>> = {
  'events.events.k8s.io': eventV1,
  'customresourcedefinitions.apiextensions.k8s.io': definition,
};

/** `exactly` does not exist in resource.k8s.io/v1beta1. */
const claimV1beta1: Fields = { devices: { requests: [{ name: 'r', deviceClassName: 'c' }] } };
const ofVersion: Readonly<Record<string, Fields>> = {
  'resourceclaims.v1beta1.resource.k8s.io': { spec: claimV1beta1 },
  'resourceclaimtemplates.v1beta1.resource.k8s.io': { spec: { spec: claimV1beta1 } },
  'resourceslices.v1beta1.resource.k8s.io': {
    spec: {
      driver: 'd.example.com',
      nodeName: 'n',
      pool: { name: 'p', generation: 1, resourceSliceCount: 1 },
      devices: [{ name: 'a', basic: {} }],
    },
  },
};

export const groupResource = ({ group, resource }: Pick<Kind, 'group' | 'resource'>): string =>
  group === '' ? resource : `${resource}.${group}`;

function corpusKind(kind: Kind): CorpusKind | undefined {
  const name = groupResource(kind);
  const sample = samples[name];
  const id = kind.preferred ? name : `${kind.resource}.${kind.version}.${kind.group}`;
  const object = ofVersion[id] ?? sample?.object ?? more[name];
  const schema = schemaOf(kind);
  if (object === undefined || schema === undefined || !kind.verbs.includes('create')) return undefined;
  return {
    id,
    kind,
    apiVersion: kind.group === '' ? kind.version : `${kind.group}/${kind.version}`,
    schema,
    object: harmless[name]?.(object) ?? object,
    status: sample?.status,
    change: sample?.change,
    isCustom: false,
  };
}

/** All stored kinds in all versions, in discovery order. */
export const allKinds: readonly CorpusKind[] = kinds.map(corpusKind).filter((each) => each !== undefined);

/** The kinds that a server with default flags stores. */
export const defaultKinds: readonly CorpusKind[] = allKinds.filter(({ kind }) => kind.servedByDefault);

/** Stored kinds without a sample: a kind that is added to the tables must get one. */
export const kindsWithoutSample: readonly string[] = kinds
  .filter(({ verbs }) => verbs.includes('create') && verbs.includes('list'))
  .filter((kind) => corpusKind(kind) === undefined)
  .map(groupResource);

/** Returns the path of the kind's list in a namespace, or its cluster-wide list. */
export function listPath({ kind: { group, version, resource, namespaced } }: CorpusKind, namespace = '%{namespace}'): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespaced ? `${root}/namespaces/${namespace}/${resource}` : `${root}/${resource}`;
}

let addresses = 0;

/** Returns a valid object of the kind whose name is derived from `name`: some kinds restrict names, and some repeat them in their spec. */
export function objectOf(kind: CorpusKind, name: string): Fields & { readonly metadata: Fields } {
  const object = structuredClone(kind.object);
  const meta = (metadataName: string, fields: Fields = object) => ({
    apiVersion: kind.apiVersion,
    kind: kind.kind.kind,
    metadata: { name: metadataName },
    ...fields,
  });
  switch (kind.kind.resource) {
    case 'apiservices':
      return meta(`v1.${name}.example.com`, { spec: { ...(object['spec'] as Fields), group: `${name}.example.com` } });
    case 'customresourcedefinitions':
      return meta(`things.${name}.example.com`, { spec: { ...(object['spec'] as Fields), group: `${name}.example.com` } });
    case 'ipaddresses':
      addresses += 1;
      return meta(`192.168.${(addresses >> 8) % 256}.${addresses % 256}`);
    default:
      return meta(name);
  }
}
