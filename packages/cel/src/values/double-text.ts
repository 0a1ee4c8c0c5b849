/** Formats a double in the shortest form of Go's strconv, which uses an exponent from `1e+06` on and below `0.0001`. */
export function formatDouble(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const [mantissa = '0', exponent = '0'] = Math.abs(value).toExponential().split('e');
  const power = Number(exponent);
  const sign = value < 0 ? '-' : '';
  const digits = mantissa.replace('.', '');
  if (power < -4 || power >= 6) {
    const magnitude = Math.abs(power).toString().padStart(2, '0');
    return `${sign}${mantissa}e${power < 0 ? '-' : '+'}${magnitude}`;
  }
  if (power < 0) return `${sign}0.${'0'.repeat(-power - 1)}${digits}`;
  const whole = digits.slice(0, power + 1).padEnd(power + 1, '0');
  return digits.length > power + 1 ? `${sign}${whole}.${digits.slice(power + 1)}` : `${sign}${whole}`;
}
