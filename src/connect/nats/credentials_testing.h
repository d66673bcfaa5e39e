// Credentials of a user in the form that nsc writes, made for tests from fixed seeds. They never expire.
#pragma once

#include <string_view>

namespace penstock::connect::credentials {

inline constexpr std::string_view kOperatorJwt =
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiIxIiwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJPQkMyUzM2UkFQU1Z"
    "PVlpaM1JFUTcyTlRaUlRWVUpZR0JDVFhVNkZBQVBUVzRPSFhNNlBSV0laWiIsIm5hbWUiOiJvcGVyYXRvciIsInN1YiI6Ik9CQzJTMzZSQVBTV"
    "k9WWlozUkVRNzJOVFpSVFZVSllHQkNUWFU2RkFBUFRXNE9IWE02UFJXSVpaIiwibmF0cyI6eyJ0eXBlIjoib3BlcmF0b3IiLCJ2ZXJzaW9uIjo"
    "yfX0.exan3Ft7C1Uf6dsMJeG5es4aaDiNGucyKAWxZUz3DfBVnuPFZc9z-Hrev619mxuWFfXW6uN8jpc4MXrj1cbgBg";
inline constexpr std::string_view kAccount = "ACYRY25YYSWDWVL5FFSGV2DNLRUDE246INQXSEJWYFANP2SUBEGRANLF";
inline constexpr std::string_view kAccountJwt =
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiIxIiwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJPQkMyUzM2UkFQU1Z"
    "PVlpaM1JFUTcyTlRaUlRWVUpZR0JDVFhVNkZBQVBUVzRPSFhNNlBSV0laWiIsIm5hbWUiOiJhY2NvdW50Iiwic3ViIjoiQUNZUlkyNVlZU1dEV"
    "1ZMNUZGU0dWMkROTFJVREUyNDZJTlFYU0VKV1lGQU5QMlNVQkVHUkFOTEYiLCJuYXRzIjp7ImxpbWl0cyI6eyJzdWJzIjotMSwiZGF0YSI6LTE"
    "sInBheWxvYWQiOi0xLCJpbXBvcnRzIjotMSwiZXhwb3J0cyI6LTEsIndpbGRjYXJkcyI6dHJ1ZSwiY29ubiI6LTEsImxlYWYiOi0xfSwidHlwZ"
    "SI6ImFjY291bnQiLCJ2ZXJzaW9uIjoyfX0.NUeSPLtYHgjGp0hKpiYTP1CxnbStMFBeRO6TFpC2iVR3-"
    "pqjg6XcD_TM6Ig0Pq1a73_sveiVh0EUbfY2RW6uDg";
inline constexpr std::string_view kUserJwt =
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiIxIiwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJBQ1lSWTI1WVlTV0R"
    "XVkw1RkZTR1YyRE5MUlVERTI0NklOUVhTRUpXWUZBTlAyU1VCRUdSQU5MRiIsIm5hbWUiOiJ1c2VyIiwic3ViIjoiVUNMN0FHSU1ZNk5KSDZRR"
    "lNEQkVaTEJQSUpZTEhBUFhSSE1QNERITlVaTTZIVkNHS0FJS0g3RE0iLCJuYXRzIjp7InB1YiI6e30sInN1YiI6e30sInN1YnMiOi0xLCJkYXR"
    "hIjotMSwicGF5bG9hZCI6LTEsInR5cGUiOiJ1c2VyIiwidmVyc2lvbiI6Mn19.byt1s5ejYtlYqMMuJ71izi3IP_ssCRMroCu4qSeLx6YI4inB"
    "XcQXkZG-iXdTME4wQ0Tsa2H1otE9tpNRkusgBA";
inline constexpr std::string_view kUserSeed = "SUAJAPI4UMQKHJ72VDCU22MFTPBUGNND2EKNQPYY7KDWPCBXEKT6JC5RBA";
inline constexpr std::string_view kUserPub = "UCL7AGIMY6NJH6QFSDBEZLBPIJYLHAPXRHMP4DHNUZM6HVCGKAIKH7DM";

}  // namespace penstock::connect::credentials
