import type { Kind } from '@oarlock/api/kinds';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { PipelineResponse } from '../endpoints/request/response.ts';

/** The methods of the pipeline that the HTTP handler calls. */
export interface HttpPipeline {
  handle(request: ApiRequest): PipelineResponse | Promise<PipelineResponse>;
  /** Returns the served kinds; the same array until they change. */
  servedKinds(): readonly Kind[];
  /** Returns the number of stored objects, from which the cost of a list is estimated. */
  count(group: string, version: string, resource: string): number;
}
