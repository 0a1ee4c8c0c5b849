import type { Resource } from '@oarlock/api/resource';

/** A kind that the API server serves besides the built-in ones. */
export interface DiscoveredKind {
  readonly resource: Resource;
  /** Supported verbs, as discovery reports them: `list`, `watch`, `deletecollection`, ... */
  readonly verbs: ReadonlySet<string>;
}
