import type { Resource } from '@oarlock/api/resource';

/** A kind that the API server serves in addition to the built-in kinds. */
export interface DiscoveredKind {
  readonly resource: Resource;
  /** Supported verbs, as discovery reports them: `list`, `watch`, `deletecollection`, ... */
  readonly verbs: ReadonlySet<string>;
}
