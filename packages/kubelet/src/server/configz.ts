import type { KubeletConfig } from '../config/kubelet-config.ts';

const duration = (ms: number) => `${ms / 1000}s`;

/** Returns the kubelet's configuration as a KubeletConfiguration for `/configz`. It contains no secrets. */
export function configz(config: KubeletConfig, facts: { readonly domain: string; readonly dnsServiceIP: string }): unknown {
  const { evictionHard, evictionSoft, imageGc } = config;
  const signals = {
    memoryAvailable: 'memory.available',
    diskAvailable: 'nodefs.available',
    inodesFree: 'nodefs.inodesFree',
    imageAvailable: 'imagefs.available',
    imageInodesFree: 'imagefs.inodesFree',
    pidAvailable: 'pid.available',
  } as const;
  const bySignal = <T, R>(from: Readonly<Partial<Record<keyof typeof signals, T | undefined>>>, show: (one: T) => R) =>
    Object.fromEntries(
      Object.entries(signals).flatMap(([key, signal]) => {
        const one = from[key as keyof typeof signals];
        return one === undefined ? [] : [[signal, show(one)]];
      }),
    );
  return {
    kubeletconfig: {
      kind: 'KubeletConfiguration',
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      port: config.port,
      registerNode: config.registerNode,
      clusterDomain: facts.domain,
      clusterDNS: config.clusterDNS ?? [facts.dnsServiceIP],
      resolvConf: config.resolvConf,
      maxPods: config.maxPods,
      maxParallelImagePulls: config.maxParallelImagePulls,
      imagePullCredentialsVerificationPolicy: config.imagePullCredentialsVerificationPolicy,
      preloadedImagesVerificationAllowlist: config.preloadedImagesVerificationAllowlist,
      serializeImagePulls: config.maxParallelImagePulls === 1,
      containerLogMaxSize: config.containerLogMaxSize,
      containerLogMaxFiles: config.containerLogMaxFiles,
      streamingConnectionIdleTimeout: duration(config.streamingConnectionIdleTimeoutMs),
      nodeStatusUpdateFrequency: duration(config.nodeStatusUpdateMs),
      nodeStatusReportFrequency: duration(config.nodeStatusReportMs),
      nodeLeaseDurationSeconds: config.nodeLeaseDurationSeconds,
      syncFrequency: duration(config.syncFrequencyMs),
      volumeStatsAggPeriod: duration(config.volumeStatsAggPeriodMs),
      systemReserved: config.reserved,
      allowedUnsafeSysctls: config.allowedUnsafeSysctls,
      evictionHard: bySignal(evictionHard, (limit) => limit),
      evictionSoft: bySignal(evictionSoft, ({ below }) => below),
      evictionSoftGracePeriod: bySignal(evictionSoft, ({ forSeconds }) => duration(forSeconds * 1000)),
      evictionMinimumReclaim: bySignal(config.evictionMinimumReclaim, (amount) => amount),
      evictionMaxPodGracePeriod: config.evictionMaxPodGraceSeconds,
      evictionPressureTransitionPeriod: duration(config.evictionPressureTransitionSeconds * 1000),
      imageGCHighThresholdPercent: imageGc.highPercent,
      imageGCLowThresholdPercent: imageGc.lowPercent,
      imageMinimumGCAge: duration(imageGc.minimumAgeSeconds * 1000),
      imageMaximumGCAge: duration(imageGc.maximumAgeSeconds * 1000),
      ...(config.staticPods.path !== undefined && { staticPodPath: config.staticPods.path }),
      ...(config.staticPods.url !== undefined && { staticPodURL: config.staticPods.url }),
    },
  };
}
