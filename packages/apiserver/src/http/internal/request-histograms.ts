import type { Registry } from 'prom-client';
import { PrecomputedHistogram } from '@oarlock/kernel/precomputed-metrics';

/** The buckets of upstream's histogram of request durations, in seconds. */
const durationBuckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60];
/** The buckets of upstream's histogram of response sizes, in bytes. */
const sizeBuckets = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/** The buckets of upstream's histogram of watch list durations, in seconds. */
const watchListBuckets = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60];
const labelsWithoutDryRun = ['verb', 'group', 'version', 'resource', 'subresource', 'scope', 'component'] as const;
export const requestLabels = ['verb', 'dry_run', 'group', 'version', 'resource', 'subresource', 'scope', 'component'] as const;

export const newDurations = (registry: Registry) =>
  new PrecomputedHistogram({
    name: 'apiserver_request_duration_seconds',
    help: 'Seconds from the first byte of a request to the end of its response, except for watches.',
    labelNames: requestLabels,
    buckets: durationBuckets,
    registry,
  });

export const newSliDurations = (registry: Registry) =>
  new PrecomputedHistogram({
    name: 'apiserver_request_sli_duration_seconds',
    help: 'Seconds from the first byte of a request to the end of its response, without the waits in API Priority and Fairness and for admission webhooks.',
    labelNames: labelsWithoutDryRun,
    buckets: durationBuckets,
    registry,
  });

export const newSizes = (registry: Registry) =>
  new PrecomputedHistogram({
    name: 'apiserver_response_sizes',
    help: 'Bytes of the bodies of responses to reads, as sent, except for watches.',
    labelNames: labelsWithoutDryRun,
    buckets: sizeBuckets,
    registry,
  });

export const newWatchLists = (registry: Registry) =>
  new PrecomputedHistogram({
    name: 'apiserver_watch_list_duration_seconds',
    help: 'Seconds until a watch with sendInitialEvents has sent the initial events.',
    labelNames: ['group', 'version', 'resource', 'scope'],
    buckets: watchListBuckets,
    registry,
  });
