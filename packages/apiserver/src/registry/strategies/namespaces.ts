import type { KubeObject } from '@oarlock/api/object';
import type { Namespace, NamespaceSpec, NamespaceStatus } from '@oarlock/api/types/core-v1';
import { specOf, statusOf, withMetadata, withFields, type Strategy } from '../strategy.ts';

const spec = (object: KubeObject) => specOf<NamespaceSpec>(object);
const status = (object: KubeObject) => statusOf<NamespaceStatus>(object);

/**
 * The strategy of Namespaces. A deletion only sets the phase Terminating; the namespace controller deletes the contents of the namespace and then
 * removes `spec.finalizers`.
 */
export const namespaces: Strategy = {
  fields: { 'status.phase': (object) => (object as Namespace).status?.phase ?? '', name: ({ metadata }) => metadata?.name ?? '' },
  prepareForCreate(object) {
    const finalizers = spec(object).finalizers ?? [];
    const { name = '', labels } = object.metadata ?? {};
    // a generated name is only known after defaulting
    return withFields(withMetadata(object, { labels: { ...labels, 'kubernetes.io/metadata.name': name } }), {
      spec: { ...spec(object), finalizers: finalizers.includes('kubernetes') ? finalizers : [...finalizers, 'kubernetes'] },
      status: { phase: 'Active' },
    });
  },
  prepareForUpdate: (object, old) =>
    withFields(object, { spec: { ...spec(object), finalizers: spec(old).finalizers ?? [] }, status: status(old) }),
  subresources: {
    status: { prepareForUpdate: (object, old) => withFields(object, { spec: spec(old) }) },
    finalize: { prepareForUpdate: (object, old) => withFields(object, { status: status(old) }) },
  },
  isHeld: (object) => (spec(object).finalizers ?? []).length > 0,
  markTerminating: (object) => withFields(object, { status: { ...status(object), phase: 'Terminating' } }),
};
