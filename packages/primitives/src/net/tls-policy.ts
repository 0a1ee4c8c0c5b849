/**
 * Cipher suites that listeners and clients accept, in OpenSSL's names: those of TLS 1.3, and the suites of TLS 1.2 with forward secrecy and
 * authenticated encryption. Source: CIS Kubernetes Benchmark 1.11, controls 1.2.29 and 4.2.12.
 */
export const cipherSuites = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
] as const;

/** Options of every TLS listener: TLS 1.2 or newer with `cipherSuites`, in the server's order of preference. */
export const serverTls = { minVersion: 'TLSv1.2', ciphers: cipherSuites.join(':'), honorCipherOrder: true } as const;
