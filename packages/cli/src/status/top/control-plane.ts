import {
  controlPlaneFigures,
  controlPlaneMetrics,
  controlPlaneMetricsPath,
  type ControlPlaneFigures,
} from '@oarlock/api/component-helpers/control-plane-figures';
import { isStatus } from '@oarlock/api/status';
import { samplesOf } from '@oarlock/primitives/prometheus-text';
import type { Client } from '@oarlock/spi/client';
import { failedChecks } from '../../common/failed-checks.ts';

/** The API server that answers, and what the process of this server measures. Absent where the user may not read it, or the server has none. */
export interface ControlPlaneFacts extends ControlPlaneFigures {
  /** Absent if the server does not show its checks to the user. */
  readonly ready?: boolean;
  /** The failed checks of `/readyz`. */
  readonly failedChecks: readonly string[];
  /** Why there are no figures, if the server does not show them to the user. */
  readonly missing?: string;
}

/** Reads `/readyz?verbose` and `/metrics`, which have no watch. */
export async function readControlPlane(client: Client, signal?: AbortSignal): Promise<ControlPlaneFacts> {
  const [checks, text] = await Promise.all([read(client, '/readyz?verbose', signal), read(client, controlPlaneMetricsPath, signal)]);
  const hidden = text.code !== undefined && !text.isOk ? { missing: hiddenBecause('/metrics', text) } : {};
  // a server that is not ready answers 500 with the failed checks; other rejections do not depend on the state of the server
  const readiness = checks.isOk || !isHidden(checks.code) ? { ready: checks.isOk } : {};
  return { ...readiness, failedChecks: failedChecks(checks.text), ...(text.isOk ? figuresOf(text.text) : hidden) };
}

const figuresOf = (text: string): ControlPlaneFigures => controlPlaneFigures(samplesOf(text, (metric) => controlPlaneMetrics.has(metric)));

const isHidden = (code: number | undefined): boolean => code === 401 || code === 403 || code === 404;
const hiddenBecause = (path: string, { code, text }: ReadText): string => (code === 404 ? `the server serves no ${path}` : text);

interface ReadText {
  readonly isOk: boolean;
  /** The status code of a rejection. */
  readonly code?: number;
  readonly text: string;
}

async function read(client: Client, path: string, signal: AbortSignal | undefined): Promise<ReadText> {
  try {
    return { isOk: true, text: String(await client.raw('GET', path, undefined, signal && { signal })) };
  } catch (error) {
    if (isStatus(error)) return { isOk: false, code: error.code, text: error.message };
    throw error;
  }
}
