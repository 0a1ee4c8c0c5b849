import type { KubeObject } from '@oarlock/api/object';
import type { MemoryApi } from '@oarlock/testing/memory-api';

/** Makes the in-memory API answer reviews by `allows` and store approvals, as the API server does. */
export function answerSubjectAccessReviews(api: MemoryApi, allows: (subresource: string, user: string) => boolean): MemoryApi {
  const handle = api.handler.handle.bind(api.handler);
  api.handler.handle = async (asked) => {
    if (asked.resource.resource === 'subjectaccessreviews') {
      const { spec } = asked.body as {
        readonly spec: { readonly user: string; readonly resourceAttributes: { readonly subresource: string } };
      };
      const allowed = allows(spec.resourceAttributes.subresource, spec.user);
      return { kind: 'object', code: 201, object: { ...(asked.body as KubeObject), ...{ status: { allowed } } }, warnings: [] };
    }
    return handle(asked.subresource === 'approval' ? { ...asked, subresource: 'status' } : asked);
  };
  return api;
}
