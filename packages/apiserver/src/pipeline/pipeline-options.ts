import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Tracer } from '@opentelemetry/api';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { AdmissionMetrics } from '../admission/admission-metrics.ts';
import type { AuthMetrics } from '../authorization/access-metrics.ts';
import type { PluginNames } from '../authorization/authorization.ts';
import type { RuleMetrics } from '../custom-resources/cel/rule-metrics.ts';
import type { Component } from '../endpoints/handlers/subresources/component-statuses.ts';
import type { RandomSource } from '../registry/random.ts';
import type { RuntimeConfig } from './runtime-config.ts';

export interface PipelineOptions {
  readonly storage: StorageDriver;
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  /** The authenticators that verify the tokens in TokenReviews. */
  readonly authn?: readonly Authenticator[];
  readonly clusterFacts: ClusterFacts;
  readonly clusterKeys: ClusterKeys;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer?: Tracer;
  readonly random?: RandomSource;
  /** Returns true if a stored value must be rewritten even if its content is unchanged, for example after a rotation of encryption keys. */
  readonly isStale?: (value: Uint8Array) => boolean;
  /** Returns the components that componentstatuses reports. */
  readonly components?: () => readonly Component[];
  /** The API versions to serve in addition to the default versions, or not to serve (--runtime-config). */
  readonly runtimeConfig?: RuntimeConfig;
  /** The interval in which storage is compacted; 0 disables compaction. Default: 5 minutes. */
  readonly compactionIntervalMs?: number;
  /** Addresses at which no conversion webhook of a Service is called. */
  readonly neverProxied?: readonly string[];
  /** The names of the plugins for spans, in the order of the chains. */
  readonly names?: { readonly authz?: PluginNames; readonly admission?: PluginNames };
  /** The metrics of authorization, of admission and of validation rules. */
  readonly metrics?: PipelineMetrics;
}

export interface PipelineMetrics {
  readonly access: AuthMetrics;
  readonly admission: AdmissionMetrics;
  readonly rules: RuleMetrics;
}
