import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { formatTime } from '@oarlock/api/time';
import { withCondition } from '../custom-resources/conditions.ts';
import { storedVersionErrors, validateDefinition, validateDefinitionUpdate } from '../custom-resources/definition-validation.ts';
import { part, withMeta, withParts, type Strategy } from './strategy.ts';

/** Holds a definition until the last of its objects is gone. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

const asDefinition = (object: KubeObject) => object as CustomResourceDefinition;

/** The versions that objects may be stored in: those that were the storage version once, until somebody says otherwise. */
function withStoredVersions(object: KubeObject, before: CustomResourceDefinition['status']): KubeObject {
  const stored = before?.storedVersions ?? [];
  const added = (asDefinition(object).spec?.versions ?? []).filter(({ name, storage }) => storage && !stored.includes(name));
  const status = { ...before, storedVersions: [...stored, ...added.map(({ name }) => name)] };
  return withParts(object, { status });
}

/** What Go writes of a status that nobody has written yet. */
const unseen = { acceptedNames: { kind: '', plural: '' }, conditions: null } as object as CustomResourceDefinition['status'];

/** CustomResourceDefinitions themselves; what they define is in `custom-resources/`. */
export const customResourceDefinitions: Strategy = {
  unconditionalUpdate: false,
  generation: (object, old) => !jsonEqual(part(object, 'spec'), part(old, 'spec')),
  create: (object) => withStoredVersions(object, unseen),
  update: (object, old) => withStoredVersions(object, asDefinition(old).status),
  validate: (object) => validateDefinition(asDefinition(object)),
  validateUpdate: (object, old) => validateDefinitionUpdate(asDefinition(object), asDefinition(old)),
  subresources: {
    status: {
      prepare(object, old) {
        const { labels, annotations, finalizers, ownerReferences } = old.metadata ?? {};
        return withMeta(withParts(object, { spec: part(old, 'spec') }), { labels, annotations, finalizers, ownerReferences });
      },
      validate: (object) => storedVersionErrors(asDefinition(object)),
    },
  },
  held: ({ metadata }) => metadata?.deletionTimestamp === undefined || (metadata.finalizers ?? []).includes(cleanupFinalizer),
  deleting(object) {
    const { metadata } = object;
    const { status } = asDefinition(object);
    const finalizers = metadata?.finalizers ?? [];
    const conditions = withCondition(
      status?.conditions ?? [],
      {
        type: 'Terminating',
        status: 'True',
        reason: 'InstanceDeletionPending',
        message: 'CustomResourceDefinition marked for deletion; CustomResource deletion will be initiated soon',
      },
      Date.parse(metadata?.deletionTimestamp ?? formatTime(0)),
    );
    return withParts(
      withMeta(object, { finalizers: finalizers.includes(cleanupFinalizer) ? finalizers : [...finalizers, cleanupFinalizer] }),
      { status: { ...status, conditions } },
    );
  },
};
