import type { Kind } from '@oarlock/api/kinds';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { PipelineResponse } from '../request/response.ts';

/** The methods of the pipeline that HTTP requests need. */
export interface HttpPipeline {
  handle(request: ApiRequest): Promise<PipelineResponse>;
  /** Returns the same array until the served kinds change. */
  servedKinds(): readonly Kind[];
  /** Returns the number of objects that a list has to examine. */
  count(group: string, version: string, resource: string): number;
}
