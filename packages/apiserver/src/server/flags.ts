import type { FeatureSettings } from '@oarlock/api/component-helpers/feature-gates';
import type { ApiServerConfig } from './server-options.ts';

/** Returns the options of the API server by the names of upstream's flags, in order. */
export function flagsOf(
  config: ApiServerConfig,
  { featureGates = {}, emulationVersion }: FeatureSettings,
): Readonly<Record<string, string>> {
  const { advertiseAddress, compactionIntervalSeconds, listen, requestTimeoutSeconds, runtimeConfig } = config;
  return {
    ...(advertiseAddress !== undefined && { 'advertise-address': advertiseAddress }),
    'bind-address': listen.address,
    ...(compactionIntervalSeconds !== undefined && { 'etcd-compaction-interval': `${compactionIntervalSeconds}s` }),
    ...(emulationVersion !== undefined && { 'emulated-version': emulationVersion }),
    ...(Object.keys(featureGates).length > 0 && {
      'feature-gates': Object.entries(featureGates)
        .map((entry) => entry.join('='))
        .join(','),
    }),
    'http2-max-streams-per-connection': String(config.maxStreamsPerConnection),
    'max-mutating-requests-inflight': String(config.maxMutatingRequestsInflight),
    'max-requests-inflight': String(config.maxRequestsInflight),
    'request-timeout': `${requestTimeoutSeconds}s`,
    'runtime-config': Object.entries(runtimeConfig)
      .map((entry) => entry.join('='))
      .join(','),
    'secure-port': String(listen.port),
  };
}
