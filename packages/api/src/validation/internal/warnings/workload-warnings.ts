import type { StatefulSet } from '../../../generated/types/apps-v1.ts';
import type { CronJob, JobSpec } from '../../../generated/types/batch-v1.ts';
import type { ObjectMeta } from '../../../object.ts';
import { isDns1123Label } from '../../../values/names.ts';
import { podTemplateWarnings } from './pod-warnings.ts';
import { claimSpecWarnings } from './storage-warnings.ts';

/** Returns the warning about a name that is not a DNS label; `use` names the use of the name. */
export function nameWarnings(meta: ObjectMeta | undefined, use: string): readonly string[] {
  const errors = meta?.name ? isDns1123Label(meta.name) : [];
  return errors.length === 0
    ? []
    : [`metadata.name: this is used in ${use}, which can result in surprising behavior; a DNS label is recommended: [${errors.join(' ')}]`];
}
export const podName = "the Pod's hostname";
export const templateName = 'Pod names and hostnames';

export function jobSpecWarnings(path: string, spec: JobSpec | undefined): readonly string[] {
  const isHuge = spec?.completionMode === 'Indexed' && (spec.completions ?? 0) > 100_000 && (spec.parallelism ?? 0) > 10_000;
  return [
    ...(isHuge
      ? [
          `${path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail`,
        ]
      : []),
    ...podTemplateWarnings(`${path}.template`, spec?.template),
  ];
}

/** Upstream reports the path with a second `spec`. Creation rejects such a schedule; objects stored by older versions may have one. */
export const scheduleWarnings = ({ spec }: CronJob): readonly string[] =>
  spec?.schedule?.includes('TZ') === true
    ? [
        'cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details',
      ]
    : [];

export const statefulSetWarnings = ({ spec }: StatefulSet): readonly string[] => [
  ...(spec?.volumeClaimTemplates ?? []).flatMap((claim, i) => claimSpecWarnings(`spec.volumeClaimTemplates[${i}]`, claim.spec)),
  ...((spec?.revisionHistoryLimit ?? 0) < 0
    ? ['spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended']
    : []),
];
