import type { APIService } from '@oarlock/api/types/apiregistration-v1';

/** A group version that an extension API server serves. */
export interface Remote {
  readonly service: APIService;
  readonly group: string;
  readonly version: string;
}
