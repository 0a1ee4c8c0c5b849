import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { formatTime } from '@oarlock/api/values/time';
import { withCondition } from './conditions.ts';
import { formatWarnings } from './format-warnings.ts';
import { storedVersionErrors, withStoredVersions } from './storage-version.ts';
import { validateDefinition, validateDefinitionUpdate } from './validation.ts';
import { statusOnly } from '../../registry/status-only.ts';
import { fieldOf, withMetadata, withFields, type Strategy } from '../../registry/strategy.ts';

/** The finalizer that holds a definition until its last object is deleted. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

const asDefinition = (object: KubeObject) => object as CustomResourceDefinition;

/** The empty status as Go encodes it. */
const unseen = { acceptedNames: { kind: '', plural: '' }, conditions: null } as object as CustomResourceDefinition['status'];

/** The strategy of CustomResourceDefinitions; the resources that they define are in `custom-resources/`. */
export const customResourceDefinitions: Strategy = {
  allowUnconditionalUpdate: false,
  generation: (object, old) => !jsonEqual(fieldOf(object, 'spec'), fieldOf(old, 'spec')),
  prepareForCreate: (object) => withStoredVersions(asDefinition(object), unseen),
  prepareForUpdate: (object, old) => withStoredVersions(asDefinition(object), asDefinition(old).status),
  validate: (object) => validateDefinition(asDefinition(object)),
  validateUpdate: (object, old) => validateDefinitionUpdate(asDefinition(object), asDefinition(old)),
  warnings: (object, old) => formatWarnings(asDefinition(object), old && asDefinition(old)),
  subresources: {
    status: {
      ...statusOnly,
      validate: (object) => storedVersionErrors(asDefinition(object)),
    },
  },
  isHeld: ({ metadata }) => metadata?.deletionTimestamp === undefined || (metadata.finalizers ?? []).includes(cleanupFinalizer),
  markTerminating(object) {
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
        ...(metadata?.generation !== undefined && { observedGeneration: metadata.generation }),
      },
      Date.parse(metadata?.deletionTimestamp ?? formatTime(0)),
    );
    return withFields(
      withMetadata(object, { finalizers: finalizers.includes(cleanupFinalizer) ? finalizers : [...finalizers, cleanupFinalizer] }),
      { status: { ...status, conditions } },
    );
  },
};
