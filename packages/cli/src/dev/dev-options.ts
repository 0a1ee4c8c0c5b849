import type { Colors } from './terminal-colors.ts';

export interface DevOptions {
  readonly file?: string;
  readonly dataDir: string;
  /** Port of the API server; with `kubeconfig`, of the webhook server. */
  readonly port?: number;
  readonly all: boolean;
  /** Kubeconfig of an existing cluster, in which the plugins run instead of a cluster of their own. */
  readonly kubeconfig?: string;
  readonly webhookUrl?: string;
  readonly failurePolicy?: string;
  readonly schedulerName?: string;
}

export interface StartOptions {
  readonly options: DevOptions;
  readonly paint: Colors;
  readonly signal: AbortSignal;
  print(text: string): void;
}
