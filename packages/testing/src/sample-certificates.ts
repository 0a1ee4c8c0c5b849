/** The certificate of an authority with an Ed25519 key, valid for a hundred years. */
export const authorityPem = `-----BEGIN CERTIFICATE-----
MIIBMDCB46ADAgECAhQA/80pyEREHtdTZSsReKZoTqJi9TAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI4MjAzMDIzWhgPMjEyNjExMDQyMDMwMjNaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEAVd458XjkbgyQpuerZfXrwbtZeFlgsEtqVb4i
5/vvceejUzBRMB0GA1UdDgQWBBRW26u+446HNQUeXdT91W/PNSygrTAfBgNVHSME
GDAWgBRW26u+446HNQUeXdT91W/PNSygrTAPBgNVHRMBAf8EBTADAQH/MAUGAytl
cANBANhdmicmyCAYz6BKwfqL4SG4t7eQkiLZLgN0W+KOi26dVzbFfgg7Y3p8vgc8
ZXibyi/5m/KnCcuHOVaI/J9ozQ8=
-----END CERTIFICATE-----
`;

/** A certificate of the authority for the key of `stubRequest`, valid for one day from `leafTimes`. */
export const leafPem = `-----BEGIN CERTIFICATE-----
MIHGMHoCFBI0QNtsYXWPMr7M6XznG6+iO6O5MAUGAytlcDANMQswCQYDVQQDDAJj
YTAeFw0yNjExMjgyMDMwMjNaFw0yNjExMjkyMDMwMjNaMAAwKjAFBgMrZXADIQBi
rnMrzxD+wlPlPnskPAvfzw7/YZ+l73p0X9fQGi6J6jAFBgMrZXADQQDt/eTZHqVb
/7KopRhA7ZjDX5u54ulG/4UbCI9KAKoC/Vy0vHpYLht5Sd2q3vKlAe+W9pA2+1xQ
OtB65fn7c9gM
-----END CERTIFICATE-----
`;
export const leafTimes = { notBefore: '2026-11-28T20:30:23Z', notAfter: '2026-11-29T20:30:23Z', beginRefreshAt: '2026-11-29T12:00:00Z' };

/** A PKCS #10 request in DER and base64, without a subject, as kubelets make it. */
export const stubRequest =
  'MH8wMwIBADAAMCowBQYDK2VwAyEAYq5zK88Q/sJT5T57JDwL388O/2Gfpe96dF/X0BouieqgADAFBgMrZXADQQBeOIYxGyrDgWURQE7Y4bJ/gVSCOEHICJy7VLM8GlPMRs2154paHXoQMhx9J7xGMq7PRGm2X4PbhYY+goBsMRQB';
/** A PKCS #10 request for the subject "CN=jane", signed by its own Ed25519 key. */
export const certificateRequestPem = `-----BEGIN CERTIFICATE REQUEST-----
MIGOMEICAQAwDzENMAsGA1UEAwwEamFuZTAqMAUGAytlcAMhAPvNgmuHqS1nw92x
Dvy4gj468M4XmV/Si1AF7rI1YV6loAAwBQYDK2VwA0EA+06FdnftatT2VOgc+Jhn
A/otM/UKby0jLIygjhg2ZlrJalx2aBb3bWIC8M1g6ed/cL9LuZXVDQctkf3ByxMS
BQ==
-----END CERTIFICATE REQUEST-----
`;

/** The value of `spec.request` in a CertificateSigningRequest. */
export const certificateRequest = Buffer.from(certificateRequestPem).toString('base64');

/**
 * A self-signed certificate for `leafWithNamesKey` (a public key in base64), with these subject alternative names: the DNS names ``, `a..b`, `.a`, `a.`,
 * `good.example` and `x, "y"`, and the e-mail addresses `a@b.example`, `A B <a@b.example>`, `bad`, `a@`, `"q r"@b.example` and `<a@[127.0.0.1]>`.
 */
export const leafWithNamesPem = `-----BEGIN CERTIFICATE-----
MIIBYTCCAROgAwIBAgIUElBJIlbO7oPs3Sar7fbSGTe1TOQwBQYDK2VwMAAwHhcN
MjYxMTI4MjEwNzE0WhcNMjYxMTI5MjEwNzE0WjAAMCowBQYDK2VwAyEAzXxSZJV0
CUwECOmKodZEep/9VfIM7Y9KsIhi67Od8kyjgZ4wgZswegYDVR0RBHMwcYIAggRh
Li5iggIuYYICYS6CDGdvb2QuZXhhbXBsZYIGeCwgInkigQthQGIuZXhhbXBsZYER
QSBCIDxhQGIuZXhhbXBsZT6BA2JhZIECYUCBDyJxIHIiQGIuZXhhbXBsZYEPPGFA
WzEyNy4wLjAuMV0+MB0GA1UdDgQWBBQa75fz/90YK/NvVDT7Ve9sO6Gg8TAFBgMr
ZXADQQDOlgTYdbRS0yMpErcDjU8TbQFTEp3ydeGkVtielD8luLv9yhgPeV/Wf6ZR
VQnL3jNJZ8lrRAJ3tk3t9Gt8hsEM
-----END CERTIFICATE-----
`;
export const leafWithNamesKey = 'MCowBQYDK2VwAyEAzXxSZJV0CUwECOmKodZEep/9VfIM7Y9KsIhi67Od8kw=';
export const leafWithNamesTimes = {
  notBefore: '2026-11-28T21:07:14Z',
  notAfter: '2026-11-29T21:07:14Z',
  beginRefreshAt: '2026-11-29T12:00:00Z',
};
