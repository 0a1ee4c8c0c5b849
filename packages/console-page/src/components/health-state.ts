/** The states that `StatusDot` shows. */
export type HealthState = 'ok' | 'warning' | 'error' | 'pending' | 'unknown';
