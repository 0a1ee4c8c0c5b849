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
import type { Component } from '../handlers/subresources/component-statuses.ts';
import type { RandomSource } from '../registry/random.ts';
import type { RuntimeConfig } from './runtime-config.ts';

export interface PipelineOptions {
  readonly storage: StorageDriver;
  readonly authz: readonly Authorizer[];
  readonly admission: readonly AdmissionPlugin[];
  /** The authenticators that TokenReviews use. */
  readonly authn?: readonly Authenticator[];
  readonly clusterFacts: ClusterFacts;
  readonly clusterKeys: ClusterKeys;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer?: Tracer;
  readonly random?: RandomSource;
  /** Returns true for stored values that must be rewritten although their content is unchanged, such as after a key rotation. */
  readonly isStale?: (value: Uint8Array) => boolean;
  /** The components that componentstatuses reports. */
  readonly components?: () => readonly Component[];
  /** Versions to serve in addition to the default ones, or not to serve. */
  readonly runtimeConfig?: RuntimeConfig;
  /** Names of the plugins for spans, in the order of the chains. */
  readonly names?: { readonly authz?: PluginNames; readonly admission?: PluginNames };
  /** Metrics of authorization, admission and validation rules. */
  readonly metrics?: PipelineMetrics;
}

export interface PipelineMetrics {
  readonly access: AuthMetrics;
  readonly admission: AdmissionMetrics;
  readonly rules: RuleMetrics;
}
