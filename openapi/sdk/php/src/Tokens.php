<?php

declare(strict_types=1);

namespace PartnerSdk;

/** The tokens of one linked client. */
final class Tokens
{
    /**
     * @param int $expiresAt Unix time
     * @param string $scope what the client granted, which may be less than what you asked for
     * @param string|null $refreshToken null when offline_access was not granted
     */
    public function __construct(
        public readonly string $accessToken,
        public readonly int $expiresAt,
        public readonly string $scope,
        public readonly ?string $refreshToken = null,
    ) {
    }
}
