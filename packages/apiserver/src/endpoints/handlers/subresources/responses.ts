import type { KubeObject } from '@oarlock/api/object';
import type { RequestContext } from '../../request/request-context.ts';
import type { PipelineResponse } from '../../request/response.ts';
import { DerivedObject } from '../../../watch-cache/item.ts';

/** Returns a response with a Status of `Success`, for subresources that have no result object. */
export function successResponse(context: RequestContext, code: 200 | 201 = 201): PipelineResponse {
  return objectResponse({ kind: 'Status', apiVersion: 'v1', metadata: {}, ...{ status: 'Success', code } } as KubeObject, context, {
    code,
  });
}

/** Returns a response that contains an object that is not stored, such as a Scale or a Status. */
export function objectResponse(
  object: KubeObject,
  context: RequestContext,
  { code = 201, revision = 0 }: { readonly code?: 200 | 201; readonly revision?: number } = {},
): PipelineResponse {
  return { kind: 'object', code, item: new DerivedObject(object, revision), warnings: context.warnings };
}
