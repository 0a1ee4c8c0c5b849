import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Operation } from '@oarlock/spi/admission';

/** The attributes of an admission request (admission.Attributes upstream), without the ones that the RequestContext contains. */
export interface AdmissionAttributes {
  readonly operation: Operation;
  readonly resource: Resource;
  readonly object: KubeObject | undefined;
  readonly old: KubeObject | undefined;
  readonly options: Readonly<Record<string, unknown>>;
  /** The name of the object; absent if it is the name in the request. */
  readonly name?: string;
}
