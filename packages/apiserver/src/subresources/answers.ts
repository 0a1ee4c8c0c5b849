import type { KubeObject } from '@oarlock/api/object';
import type { Call } from '../call.ts';
import type { PipelineResponse } from '../response.ts';
import { View } from '../watch-cache/item.ts';

/** What subresources answer that have nothing else to say. */
export function succeeded(call: Call, code: 200 | 201 = 201): PipelineResponse {
  return made({ kind: 'Status', apiVersion: 'v1', metadata: {}, ...{ status: 'Success', code } } as KubeObject, call, code);
}

/** An answer that is stored nowhere. */
export function made(object: KubeObject, call: Call, code: 200 | 201 = 201, revision = 0): PipelineResponse {
  return { kind: 'object', code, item: new View(object, revision), warnings: call.warnings };
}
