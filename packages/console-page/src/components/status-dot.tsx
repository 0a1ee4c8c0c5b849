import type { HealthState } from './health-state.ts';
import { text } from '../text/en.ts';

/** A colored sign with a shape and a text, so that color is not the only difference. */
export function StatusDot({ health, label }: { readonly health: HealthState; readonly label?: string }) {
  const words = label ?? text.status[health];
  return (
    <span class={`status status-${health}`}>
      <span class="status-sign" aria-hidden="true" />
      <span>{words}</span>
    </span>
  );
}
