/** Random manifests that a user may submit, drawn from a seed. */
export class Manifests {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  int(from: number, to: number): number {
    return from + Math.floor(this.#random() * (to - from));
  }
  chance(part: number): boolean {
    return this.#random() < part;
  }
  pick<T>(...list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T;
  }
  get image(): string {
    return `web:${this.int(1, 1000)}`;
  }

  /** The template of pods that keep running. */
  template(app: string, more: object = {}): object {
    const delays = {
      ...(this.chance(0.5) && { 'simulated.oarlock.dev/start-delay': `${this.int(50, 1500)}ms` }),
      ...(this.chance(0.4) && { 'simulated.oarlock.dev/ready-after': `${this.int(100, 2500)}ms` }),
      ...(this.chance(0.4) && { 'simulated.oarlock.dev/stop-delay': `${this.int(100, 1500)}ms` }),
    };
    const requests = { cpu: this.pick('100m', '500m', '2', '6'), memory: this.pick('64Mi', '1Gi') };
    const tolerations = ['unreachable', 'not-ready'].map((what) => ({
      key: `node.kubernetes.io/${what}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: this.int(0, 20),
    }));
    return {
      metadata: { labels: { app }, annotations: delays },
      spec: {
        terminationGracePeriodSeconds: this.int(1, 4),
        containers: [
          {
            name: 'c',
            image: this.image,
            resources: { requests },
            ...(this.chance(0.2) && { ports: [{ containerPort: 80, hostPort: this.int(8080, 8084) }] }),
          },
        ],
        ...(this.chance(0.6) && { tolerations }),
        ...more,
      },
    };
  }

  deployment(name: string): object {
    const { int, pick } = this.#bound();
    const rolling = { maxSurge: pick<number | string>(0, 1, 2, '25%', '50%'), maxUnavailable: pick<number | string>(1, 2, '25%', '40%') };
    const strategy = this.chance(0.15)
      ? { type: 'Recreate' }
      : { type: 'RollingUpdate', rollingUpdate: this.chance(0.2) ? { maxSurge: 1, maxUnavailable: 0 } : rolling };
    return {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name },
      spec: {
        replicas: int(0, 10),
        revisionHistoryLimit: int(0, 3),
        progressDeadlineSeconds: 600,
        strategy,
        selector: { matchLabels: { app: name } },
        template: this.template(name),
      },
    };
  }

  statefulSet(name: string): object {
    const { int, pick } = this.#bound();
    return {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: { name },
      spec: {
        replicas: int(0, 5),
        serviceName: name,
        podManagementPolicy: pick('OrderedReady', 'OrderedReady', 'Parallel'),
        ...(this.chance(0.2) && { ordinals: { start: 2 } }),
        persistentVolumeClaimRetentionPolicy: { whenDeleted: pick('Retain', 'Delete'), whenScaled: pick('Retain', 'Delete') },
        selector: { matchLabels: { app: name } },
        template: this.template(name, this.chance(0.5) ? {} : { volumes: [] }),
        ...(this.chance(0.6) && {
          volumeClaimTemplates: [
            {
              metadata: { name: 'data' },
              spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'soak', resources: { requests: { storage: '1Mi' } } },
            },
          ],
        }),
      },
    };
  }

  daemonSet(name: string, groups: number): object {
    const surge = this.chance(0.3) ? { maxSurge: 2, maxUnavailable: 0 } : { maxUnavailable: this.int(1, 6) };
    return {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name },
      spec: {
        updateStrategy: this.chance(0.8) ? { type: 'RollingUpdate', rollingUpdate: surge } : { type: 'OnDelete' },
        selector: { matchLabels: { app: name } },
        template: this.template(name, {
          nodeSelector: { group: `group-${this.int(0, groups)}` },
          // no host port: it would conflict with other pods
          containers: [{ name: 'c', image: this.image, resources: { requests: { cpu: '10m' } } }],
        }),
      },
    };
  }

  job(name: string, labels: object = {}): object {
    const completions = this.int(1, 7);
    const variants: readonly object[] = [
      { completions },
      { completions, completionMode: 'Indexed' },
      { completions, completionMode: 'Indexed', backoffLimitPerIndex: 1, maxFailedIndexes: this.int(0, 3) },
      { completions, completionMode: 'Indexed', successPolicy: { rules: [{ succeededCount: 1 }] } },
      { completions, podReplacementPolicy: 'Failed' },
      { completions, suspend: true },
      { completions, activeDeadlineSeconds: this.int(2, 8) },
      {
        completions,
        podFailurePolicy: { rules: [{ action: this.pick('FailJob', 'Ignore', 'Count'), onExitCodes: { operator: 'In', values: [42] } }] },
      },
      {},
    ];
    const policy = this.chance(0.3) ? 'OnFailure' : 'Never';
    const variant = this.pick(...variants);
    const fails = this.chance(0.2);
    return {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name, labels },
      spec: {
        parallelism: this.int(1, 5),
        backoffLimit: this.int(0, 4),
        ...(this.chance(0.3) && { ttlSecondsAfterFinished: this.int(0, 20) }),
        ...variant,
        template: {
          metadata: {
            labels: { app: name },
            annotations: {
              'simulated.oarlock.dev/exit-after': `${this.int(100, 4000)}ms`,
              ...(fails && { 'simulated.oarlock.dev/exit-code': this.pick('1', '42'), 'simulated.oarlock.dev/exits': '3' }),
            },
          },
          spec: {
            restartPolicy:
              'podFailurePolicy' in variant || 'podReplacementPolicy' in variant || 'backoffLimitPerIndex' in variant ? 'Never' : policy,
            terminationGracePeriodSeconds: 1,
            containers: [{ name: 'c', image: this.image, resources: { requests: { cpu: '100m' } } }],
          },
        },
      },
    };
  }

  cronJob(name: string): object {
    const { spec } = this.job(name) as { readonly spec: object };
    return {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: { name },
      spec: {
        schedule: '* * * * *',
        concurrencyPolicy: this.pick('Allow', 'Forbid', 'Replace'),
        successfulJobsHistoryLimit: this.int(0, 3),
        failedJobsHistoryLimit: this.int(0, 2),
        jobTemplate: { spec },
      },
    };
  }

  budget(name: string, app: string): object {
    const limit = this.pick<object>(
      { minAvailable: this.int(1, 4) },
      { maxUnavailable: 1 },
      { maxUnavailable: '30%' },
      { minAvailable: '50%' },
    );
    return {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name },
      spec: { ...limit, selector: { matchLabels: { app } } },
    };
  }

  autoscaler(name: string): object {
    return {
      apiVersion: 'autoscaling/v2',
      kind: 'HorizontalPodAutoscaler',
      metadata: { name },
      spec: {
        minReplicas: 1,
        maxReplicas: this.int(2, 7),
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
        metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'AverageValue', averageValue: '100m' } } }],
      },
    };
  }

  #bound() {
    return { int: (from: number, to: number) => this.int(from, to), pick: <T>(...list: readonly T[]) => this.pick(...list) };
  }
}
