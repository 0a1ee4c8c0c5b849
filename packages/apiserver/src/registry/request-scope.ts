import type { RegistryDependencies } from './registry-dependencies.ts';
import type { ServedKind } from './served-kind.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';

/** The dependencies, the served kind and the request that the steps of a handler share (RequestScope upstream). */
export interface RequestScope {
  readonly registry: RegistryDependencies;
  readonly kind: ServedKind;
  readonly context: RequestContext;
}
