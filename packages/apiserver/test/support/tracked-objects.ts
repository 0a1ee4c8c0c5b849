import type { KubeObject, ManagedFieldsEntry } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { TestServer } from './pipeline-fixture.ts';

export type Fields = Readonly<Record<string, unknown>>;
export type TrackedObject = KubeObject & { readonly spec?: Fields; readonly data?: Record<string, string>; readonly status?: Fields };

export type ApplyRequest = readonly [
  resource: Resource | string,
  body: unknown,
  fieldManager: string,
  query?: Readonly<Record<string, string>>,
  subresource?: string,
];

/** Applies a configuration in the namespace `default`, and returns the object. */
export const applyTo = (server: TestServer, ...[resource, body, fieldManager, query = {}, subresource = '']: ApplyRequest) =>
  server.object<TrackedObject>('patch', resource, {
    namespace: 'default',
    name: (body as KubeObject).metadata?.name ?? 'x',
    body,
    patchType: 'apply',
    subresource,
    query: { fieldManager, ...query },
  });

export const entries = (object: KubeObject): readonly ManagedFieldsEntry[] => object.metadata?.managedFields ?? [];

/** Returns the fields that a manager owns. */
export const fieldsOf = (object: KubeObject, manager: string, operation = 'Apply') =>
  entries(object).find((entry) => entry.manager === manager && entry.operation === operation)?.fieldsV1;
